#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/disjoint_sets.h"

namespace meg::cleaning {

/// What decides which document of a cluster stays.
struct DocumentFacts {
  int64_t text_bytes = 0;
  double key_value = 0;  ///< Of CleanOptions::kept_duplicate_key; NaN where it is no number.
};

/// Documents that are joined are one cluster, of which one stays. Memory: 12 bytes a document, 20
/// where facts are asked for.
class Clusters {
 public:
  explicit Clusters(KeptDuplicate kept) : kept_(kept) {}

  /// Whether a rule goes by facts of documents.
  static bool asks_for_facts(KeptDuplicate kept) {
    return kept != KeptDuplicate::kRoot && kept != KeptDuplicate::kFirst;
  }

  /// Documents in ascending order; those of which nothing is said have no facts.
  void add_facts(int64_t document, const DocumentFacts& facts);

  /// Once, before documents are joined. documents: at most 2^32 - 1.
  void begin(int64_t documents) { sets_.grow(static_cast<uint32_t>(documents)); }

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

  Found find();

  /// Documents with facts but without a number at the key, where one was asked for.
  int64_t without_value() const { return without_value_; }

 private:
  double rank(uint32_t document) const {
    return document < ranks_.size() ? ranks_[document] : kNoRank;
  }

  static constexpr double kNoRank = -std::numeric_limits<double>::infinity();

  KeptDuplicate kept_;
  std::vector<double> ranks_;  // the highest stays
  int64_t without_value_ = 0;
  DisjointSets sets_;
};

}  // namespace meg::cleaning
