#include "libmeg/cleaning/internal/signature_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "libmeg/io/file_descriptor.h"

namespace meg::cleaning {
namespace {

constexpr uint64_t kMagic = 0x313067697367656d;  // "megsig01", little-endian
constexpr size_t kRecordsAtOnce = 1024;

struct Head {
  uint64_t magic = kMagic;
  int64_t documents = 0;
};

std::string name_of(int64_t index, int64_t count) {
  return fmt::format("shard{:05}of{:05}", index, count);
}

}  // namespace

ShardFiles::ShardFiles(const std::string& folder, const preprocess::Shard& shard) {
  const std::string stem =
      (std::filesystem::path(folder) / name_of(shard.index, shard.count)).string();
  documents = stem + ".documents";
  signatures = stem + ".signatures";
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

Result<SignatureWriter> SignatureWriter::create(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_regular(path));
  SignatureWriter writer(std::move(file));
  writer.size_ = sizeof(Head);
  return writer;
}

Status SignatureWriter::add(int64_t document, int64_t text_bytes,
                            std::span<const uint64_t, kHashes> signature) {
  SignatureRecord& record = records_.emplace_back();
  record.document = document;
  record.text_bytes = text_bytes;
  std::copy(signature.begin(), signature.end(), record.signature.begin());
  return records_.size() < kRecordsAtOnce ? Status() : flush();
}

Status SignatureWriter::flush() {
  const auto bytes = std::as_bytes(std::span(records_));
  MEG_RETURN_IF_ERROR(file_.write_at(size_, bytes));
  size_ += static_cast<int64_t>(bytes.size());
  records_.clear();
  return {};
}

Result<io::AtomicFile*> SignatureWriter::finish(int64_t documents) {
  MEG_RETURN_IF_ERROR(flush());
  const Head head{.documents = documents};
  MEG_RETURN_IF_ERROR(file_.write_at(0, std::as_bytes(std::span(&head, 1))));
  return &file_;
}

Result<int64_t> read_signatures(const std::string& path, int64_t most_documents,
                                const std::function<Status(const SignatureRecord&)>& take) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  Head head{.magic = 0};
  constexpr auto kHeadSize = static_cast<int64_t>(sizeof(Head));
  constexpr auto kRecordSize = static_cast<int64_t>(sizeof(SignatureRecord));
  if (size >= kHeadSize) {
    MEG_RETURN_IF_ERROR(file.read_exactly_at(0, std::as_writable_bytes(std::span(&head, 1))));
  }
  if (head.magic != kMagic || head.documents < 0 || (size - kHeadSize) % kRecordSize != 0) {
    return make_error(StatusCode::kCorruption, "{}: expected a file of signatures", path);
  }
  if (head.documents > most_documents) {
    return make_error(StatusCode::kCorruption, "{}: expected at most {} documents, found {}", path,
                      most_documents, head.documents);
  }
  std::vector<SignatureRecord> records;
  int64_t last = -1;
  for (int64_t at = kHeadSize; at < size;) {
    records.resize(static_cast<size_t>(
        std::min<int64_t>((size - at) / kRecordSize, static_cast<int64_t>(kRecordsAtOnce))));
    const auto bytes = std::as_writable_bytes(std::span(records));
    MEG_RETURN_IF_ERROR(file.read_exactly_at(static_cast<uint64_t>(at), bytes));
    at += static_cast<int64_t>(bytes.size());
    for (const SignatureRecord& record : records) {
      if (record.document <= last || record.document >= head.documents) {
        return make_error(StatusCode::kCorruption, "{}: document {}: expected {} to {}", path,
                          record.document, last + 1, head.documents - 1);
      }
      last = record.document;
      MEG_RETURN_IF_ERROR(take(record));
    }
  }
  return head.documents;
}

}  // namespace meg::cleaning
