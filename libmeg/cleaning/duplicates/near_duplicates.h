#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/bucket.h"
#include "libmeg/cleaning/duplicates/clusters.h"
#include "libmeg/cleaning/duplicates/shingle_sets.h"

namespace meg::cleaning {

/// A document that has a signature.
struct SignedDocument {
  int64_t document = 0;  ///< Its number.
  DocumentFacts facts;
  uint64_t shingles = 0;  ///< How many distinct ones it has, where pairs are verified.
};

/// Finds documents that are nearly alike among many: those that have all 8 hashes of one of the 14
/// buckets in common, and those that are so connected.
class NearDuplicates {
 public:
  /// path: of temporary files. bytes: of memory; what exceeds it is in these files, and a bit for
  /// each document beside it. verify_jaccard: see CleanOptions.
  NearDuplicates(const std::string& path, size_t bytes, KeptDuplicate kept,
                 std::optional<double> verify_jaccard);
  NearDuplicates(const NearDuplicates&) = delete;
  NearDuplicates& operator=(const NearDuplicates&) = delete;

  /// Documents must come in ascending order. shingles: the distinct ones, in ascending order, where
  /// pairs are verified. kResourceExhausted from 2^32 - 1 documents on.
  Status add(const SignedDocument& document, std::span<const uint64_t, kHashes> signature,
             std::span<const uint64_t> shingles);

  struct Found {
    Clusters::Found clusters;
    PairCounts pairs;
    int64_t without_value = 0;  ///< Documents without a number at the key that decides.
  };

  /// documents: how many there are, those without a signature included. is_removed: of documents
  /// that do not count. threads: that sort.
  Result<Found> find(int64_t documents, const std::vector<bool>& is_removed, int threads,
                     const Tick& tick);

 private:
  std::string path_;
  Clusters clusters_;
  std::optional<double> verify_jaccard_;
  std::vector<Bucket> buckets_;
  std::optional<ShingleWriter> shingle_writer_;
  ShingleSets shingles_;
};

/// kResourceExhausted for more documents than near duplicates can be found among.
Status check_document_count(int64_t documents);

}  // namespace meg::cleaning
