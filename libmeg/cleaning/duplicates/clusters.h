#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/disjoint_sets.h"
#include "libmeg/cleaning/duplicates/spilling_array.h"

namespace meg::cleaning {

/// What decides which document of a cluster stays.
struct DocumentFacts {
  int64_t text_bytes = 0;
  double key_value = 0;  ///< Of CleanOptions::kept_duplicate_key; NaN where it is no number.
};

/// Documents that are joined are one cluster, of which one stays: 8 bytes a document, 20 if another
/// one than the root stays.
class Clusters {
 public:
  /// path, bytes: of kArrays SpillingArrays, each.
  Clusters(KeptDuplicate kept, const std::string& path, size_t bytes)
      : kept_(kept), ranks_(path, bytes), stays_(path, bytes), sets_(path, bytes) {}

  static constexpr size_t kArrays = 4;

  /// Whether a rule goes by facts of documents.
  static bool asks_for_facts(KeptDuplicate kept) {
    return kept != KeptDuplicate::kRoot && kept != KeptDuplicate::kFirst;
  }

  /// Documents in ascending order; those of which nothing is said have no facts.
  Status add_facts(int64_t document, const DocumentFacts& facts);

  /// Once, before documents are joined. documents: at most 2^32 - 1.
  Status begin(int64_t documents) { return sets_.grow(static_cast<uint32_t>(documents)); }

  /// The root of the larger tree stays one; of equal ones that of a.
  void join(uint32_t a, uint32_t b) { sets_.join(a, b); }

  struct Cluster {
    int64_t documents = 0;
    uint32_t kept = 0;     ///< The document that stays.
    uint32_t removed = 0;  ///< The first one that goes.
  };

  struct Found {
    std::vector<bool> removed;     ///< By document.
    int64_t clusters = 0;          ///< Of two documents or more.
    std::vector<Cluster> largest;  ///< Up to ten, the largest first.
  };

  Result<Found> find();

  /// Documents with facts but without a number at the key, where one was asked for.
  int64_t without_value() const { return without_value_; }

 private:
  double rank(uint32_t document) const {
    return document < ranks_.size() ? ranks_[document] : kNoRank;
  }

  Status choose();

  uint32_t kept(uint32_t tree) const { return kept_ == KeptDuplicate::kRoot ? tree : stays_[tree]; }

  static constexpr double kNoRank = -std::numeric_limits<double>::infinity();

  KeptDuplicate kept_;
  SpillingArray<double> ranks_;    // the highest stays
  SpillingArray<uint32_t> stays_;  // the document of each tree that does, by its root
  int64_t without_value_ = 0;
  DisjointSets sets_;
};

}  // namespace meg::cleaning
