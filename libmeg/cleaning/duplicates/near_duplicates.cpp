#include "libmeg/cleaning/duplicates/near_duplicates.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "libmeg/base/thread_pool.h"

namespace meg::cleaning {

/// Of the memory, for each array of documents.
constexpr size_t kArrayPart = 16;

Status check_document_count(int64_t documents) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (documents <= kMost) return {};
  return make_error(StatusCode::kResourceExhausted,
                    "`near_duplicates`: expected at most {} documents", kMost);
}

NearDuplicates::NearDuplicates(const std::string& path, size_t bytes, KeptDuplicate kept,
                               std::optional<double> verify_jaccard)
    : path_(path),
      clusters_(kept, path + ".clusters", bytes / kArrayPart),
      verify_jaccard_(verify_jaccard),
      shingles_(path + ".shingle_ends", bytes / kArrayPart) {
  buckets_.reserve(kBucketCount);
  const size_t left = bytes - (Clusters::kArrays + 1) * (bytes / kArrayPart);
  for (size_t i = 0; i < kBucketCount; ++i) {
    buckets_.emplace_back(fmt::format("{}.bucket{:02}", path, i), left / kBucketCount);
  }
}

Status NearDuplicates::add(const SignedDocument& document,
                           std::span<const uint64_t, kHashes> signature,
                           std::span<const uint64_t> shingles) {
  MEG_RETURN_IF_ERROR(check_document_count(document.document + 1));
  MEG_RETURN_IF_ERROR(clusters_.add_facts(document.document, document.facts));
  if (verify_jaccard_) {
    if (!shingle_writer_) {
      MEG_ASSIGN_OR_RETURN(shingle_writer_, ShingleWriter::create(path_ + ".shingles"));
      shingles_.add_file([this](int64_t offset, std::span<std::byte> into) {
        return shingle_writer_->read_at(offset, into);
      });
    }
    MEG_RETURN_IF_ERROR(shingle_writer_->add(shingles));
    MEG_RETURN_IF_ERROR(shingles_.add(document.document, shingles.size()));
  }
  for (size_t i = 0; i < kBucketCount; ++i) {
    MEG_RETURN_IF_ERROR(
        buckets_[i].add(static_cast<uint32_t>(document.document), hashes_of(signature, i)));
  }
  return {};
}

Result<NearDuplicates::Found> NearDuplicates::find(int64_t documents,
                                                   const std::vector<bool>& is_removed, int threads,
                                                   const Tick& tick) {
  std::vector<Status> sorted(kBucketCount);
  {
    ThreadPool pool(std::min(threads, static_cast<int>(kBucketCount)));
    for (size_t i = 0; i < kBucketCount; ++i) {
      pool.submit([&, i] { sorted[i] = buckets_[i].sort(); });
    }
    pool.wait();
  }
  std::optional<PairVerification> verification;
  if (shingle_writer_) {
    MEG_RETURN_IF_ERROR(shingle_writer_->finish().status());
    verification.emplace(PairVerification{.shingles = shingles_, .least = *verify_jaccard_});
  }
  MEG_RETURN_IF_ERROR(clusters_.begin(documents));
  const auto join = [this](uint32_t earlier, uint32_t later) {
    clusters_.join(earlier, later);
    return Status();
  };
  Found found;
  for (size_t i = 0; i < kBucketCount; ++i) {
    MEG_RETURN_IF_ERROR(sorted[i]);
    MEG_ASSIGN_OR_RETURN(
        const PairCounts pairs,
        buckets_[i].find_pairs(is_removed, verification ? &*verification : nullptr, tick, join));
    found.pairs.candidates += pairs.candidates;
    found.pairs.joined += pairs.joined;
  }
  MEG_ASSIGN_OR_RETURN(found.clusters, clusters_.find());
  found.without_value = clusters_.without_value();
  return found;
}

}  // namespace meg::cleaning
