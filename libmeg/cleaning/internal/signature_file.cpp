#include "libmeg/cleaning/internal/signature_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace meg::cleaning {
namespace {

constexpr uint64_t kMagic = 0x323067697367656d;  // "megsig02", little-endian
constexpr int64_t kBlockRecords = 1024;
constexpr size_t kDocumentColumns = 4;
constexpr size_t kColumns = kDocumentColumns + kHashes;  // of 8 bytes
constexpr auto kHeadSize = static_cast<int64_t>(sizeof(SignatureHead));
constexpr auto kRecordSize = static_cast<int64_t>(kColumns * sizeof(uint64_t));

std::string name_of(int64_t index, int64_t count) {
  return fmt::format("shard{:05}of{:05}", index, count);
}

}  // namespace

ShardFiles::ShardFiles(const std::string& folder, const preprocess::Shard& shard) {
  const std::string stem =
      (std::filesystem::path(folder) / name_of(shard.index, shard.count)).string();
  documents = stem + ".documents";
  signatures = stem + ".signatures";
  shingles = stem + ".shingles";
  removed = stem + ".removed";
}

Result<int64_t> count_shards(const std::string& folder) {
  std::error_code error;
  std::set<long long> found, counts;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    long long index = 0, count = 0;
    int size = 0;
    const std::string name = at->path().filename().string();
    if (std::sscanf(name.c_str(), "shard%5lldof%5lld.signatures%n", &index, &count, &size) != 2 ||
        static_cast<size_t>(size) != name.size() || count < 1) {
      continue;
    }
    found.insert(index);
    counts.insert(count);
  }
  if (error) return errno_error(error.value(), folder);
  if (counts.empty()) {
    return make_error(StatusCode::kNotFound, "{}: expected signatures of shards, found none",
                      folder);
  }
  if (counts.size() > 1) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected shards of one run, found {} of {} and of {}", folder, "shards",
                      *counts.begin(), *counts.rbegin());
  }
  for (long long i = 0; i < *counts.begin(); ++i) {
    if (found.contains(i)) continue;
    return make_error(StatusCode::kNotFound,
                      "{}: expected signatures of {} shards, found none of {}", folder,
                      *counts.begin(), name_of(i, *counts.begin()));
  }
  return *counts.begin();
}

uint64_t key_digest(std::string_view key) {
  return key.empty() ? 0 : XXH3_64bits(key.data(), key.size());
}

void SignatureWriter::FreeState::operator()(void* state) const {
  XXH3_freeState(static_cast<XXH3_state_t*>(state));
}

Result<SignatureWriter> SignatureWriter::create(const std::string& path, std::string_view key,
                                                bool has_shingles) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_regular(path));
  SignatureWriter writer(std::move(file));
  writer.size_ = kHeadSize;
  writer.head_.magic = kMagic;
  writer.head_.key = key_digest(key);
  writer.head_.has_shingles = has_shingles ? 1 : 0;
  writer.digest_.reset(XXH3_createState());
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(writer.digest_.get()));
  return writer;
}

Status SignatureWriter::add(const SignedDocument& document,
                            std::span<const uint64_t, kHashes> signature) {
  documents_.push_back(document);
  std::copy(signature.begin(), signature.end(), signatures_.emplace_back().begin());
  return std::ssize(documents_) < kBlockRecords ? Status() : flush();
}

Status SignatureWriter::flush() {
  block_.clear();
  for (const SignedDocument& one : documents_) {
    block_.push_back(static_cast<uint64_t>(one.document));
  }
  for (const SignedDocument& one : documents_) {
    block_.push_back(static_cast<uint64_t>(one.facts.text_bytes));
  }
  for (const SignedDocument& one : documents_) {
    block_.push_back(std::bit_cast<uint64_t>(one.facts.key_value));
  }
  for (const SignedDocument& one : documents_) block_.push_back(one.shingles);
  for (size_t bucket = 0; bucket < kBucketCount; ++bucket) {
    for (const auto& signature : signatures_) {
      const auto hashes = hashes_of(signature, bucket);
      block_.insert(block_.end(), hashes.begin(), hashes.end());
    }
  }
  const auto bytes = std::as_bytes(std::span(block_));
  XXH3_64bits_update(static_cast<XXH3_state_t*>(digest_.get()), bytes.data(), bytes.size());
  MEG_RETURN_IF_ERROR(file_.write_at(size_, bytes));
  size_ += std::ssize(bytes);
  documents_.clear();
  signatures_.clear();
  return {};
}

Result<io::AtomicFile*> SignatureWriter::finish(int64_t documents) {
  MEG_RETURN_IF_ERROR(flush());
  head_.documents = documents;
  head_.digest = XXH3_64bits_digest(static_cast<const XXH3_state_t*>(digest_.get()));
  MEG_RETURN_IF_ERROR(file_.write_at(0, std::as_bytes(std::span(&head_, 1))));
  return &file_;
}

Result<SignatureFile> SignatureFile::open(const std::string& path, int64_t most_documents) {
  SignatureFile file;
  MEG_ASSIGN_OR_RETURN(file.file_, io::FileDescriptor::open_regular(path));
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.file_.size());
  SignatureHead& head = file.head_;
  if (size >= kHeadSize) {
    MEG_RETURN_IF_ERROR(file.file_.read_exactly_at(0, std::as_writable_bytes(std::span(&head, 1))));
  }
  if (head.magic != kMagic || head.documents < 0 || head.has_shingles > 1 ||
      (size - kHeadSize) % kRecordSize != 0) {
    return make_error(StatusCode::kCorruption, "{}: expected a file of signatures", path);
  }
  if (head.documents > most_documents) {
    return make_error(StatusCode::kCorruption, "{}: expected at most {} documents, found {}", path,
                      most_documents, head.documents);
  }
  file.records_ = (size - kHeadSize) / kRecordSize;
  return file;
}

int64_t SignatureFile::block_records(int64_t at) const {
  return std::min(records_ - at, kBlockRecords);
}

Status SignatureFile::read_columns(int64_t at, size_t first, size_t count,
                                   std::vector<uint64_t>& into) const {
  const auto records = static_cast<size_t>(block_records(at));
  into.resize(count * records);
  const int64_t offset =
      kHeadSize + at * kRecordSize + static_cast<int64_t>(first * records * sizeof(uint64_t));
  return file_.read_exactly_at(static_cast<uint64_t>(offset),
                               std::as_writable_bytes(std::span(into)));
}

Status SignatureFile::read_documents(
    const std::function<Status(const SignedDocument&)>& take) const {
  std::vector<uint64_t> columns;
  int64_t last = -1;
  for (int64_t at = 0; at < records_; at += kBlockRecords) {
    MEG_RETURN_IF_ERROR(read_columns(at, 0, kDocumentColumns, columns));
    const auto count = static_cast<size_t>(block_records(at));
    for (size_t i = 0; i < count; ++i) {
      const SignedDocument document{
          .document = static_cast<int64_t>(columns[i]),
          .facts = {.text_bytes = static_cast<int64_t>(columns[count + i]),
                    .key_value = std::bit_cast<double>(columns[2 * count + i])},
          .shingles = columns[3 * count + i]};
      if (document.document <= last || document.document >= head_.documents) {
        return make_error(StatusCode::kCorruption, "{}: document {}: expected {} to {}",
                          file_.path(), document.document, last + 1, head_.documents - 1);
      }
      last = document.document;
      MEG_RETURN_IF_ERROR(take(document));
    }
  }
  return {};
}

Status SignatureFile::read_bucket(
    size_t bucket,
    const std::function<Status(int64_t document, std::span<const uint64_t, kHashesPerBucket>)>&
        take) const {
  std::vector<uint64_t> documents, hashes;
  for (int64_t at = 0; at < records_; at += kBlockRecords) {
    MEG_RETURN_IF_ERROR(read_columns(at, 0, 1, documents));
    MEG_RETURN_IF_ERROR(
        read_columns(at, kDocumentColumns + bucket * kHashesPerBucket, kHashesPerBucket, hashes));
    for (size_t i = 0; i < documents.size(); ++i) {
      // In what order they come does not matter here.
      if (documents[i] >= static_cast<uint64_t>(head_.documents)) {
        return make_error(StatusCode::kCorruption, "{}: document {}: expected 0 to {}",
                          file_.path(), documents[i], head_.documents - 1);
      }
      MEG_RETURN_IF_ERROR(
          take(static_cast<int64_t>(documents[i]),
               std::span(hashes).subspan(i * kHashesPerBucket).first<kHashesPerBucket>()));
    }
  }
  return {};
}

}  // namespace meg::cleaning
