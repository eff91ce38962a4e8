#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/cleaning/duplicates/external_sorter.h"
#include "libmeg/cleaning/duplicates/internal/min_hash_kernels.h"
#include "libmeg/cleaning/duplicates/shingle_sets.h"

namespace meg::cleaning {

/// What finding pairs of near duplicates took.
struct PairCounts {
  int64_t candidates = 0;  ///< Pairs that were looked at.
  int64_t joined = 0;      ///< Of those.
};

/// How pairs are verified.
struct PairVerification {
  const ShingleSets& shingles;
  double least = 0;  ///< Jaccard similarity.
};

/// Tells a long search of its progress; an error ends it.
using Tick = std::function<Status(int64_t signatures)>;

/// One bucket of the signatures of many documents: finds those whose 8 hashes are the same. The
/// work is that of sorting and, with verification, at most 16 comparisons a document, even if all
/// documents are alike.
class Bucket {
 public:
  /// path: of a temporary file for what does not fit into `bytes`.
  Bucket(const std::string& path, size_t bytes) : sorter_(path, bytes) {}

  /// document: less than 2^32.
  Status add(uint32_t document, std::span<const uint64_t, kHashesPerBucket> hashes);

  Status sort() { return sorter_.finish(); }

  using Join = std::function<Status(uint32_t earlier, uint32_t later)>;

  /// Hands pairs of documents to `join`, by their hashes, then by document. Without verification
  /// (null) each document is joined with the one before that has the same hashes. With it, it is
  /// joined with the first of the group's leaders that is similar enough; a document with which
  /// none is becomes a leader itself, up to 16. is_removed: documents that do not count; may be
  /// empty.
  Result<PairCounts> find_pairs(const std::vector<bool>& is_removed,
                                const PairVerification* verification, const Tick& tick,
                                const Join& join);

 private:
  struct Record {
    std::array<uint64_t, kHashesPerBucket> hashes{};
    uint64_t document = 0;

    auto operator<=>(const Record&) const = default;
  };

  ExternalSorter<Record> sorter_;
};

}  // namespace meg::cleaning
