#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/dataset/indexed_dataset.h"

namespace meg::dataset {

/// Documents of an order that follow each other in the source, and their sequences.
struct DocumentRun {
  int64_t begin = 0, end = 0;
  SequenceRange sequences;
};

/// Whether document N of a dataset is its sequence N, as in most, so that no document needs to be
/// looked up.
bool documents_are_sequences(const IndexedDataset& source);

/// Lengths and pointers of the sequences of runs that have one each, looked up in the order of the
/// source: in a random order each would wait for the memory, and the source would be mapped whole.
class SingleSequences {
 public:
  /// runs: fewer than 2^32, whose sequences are there.
  void look_up(const IndexedDataset& source, std::span<const DocumentRun> runs);

  /// Of each run; 0 of those of more or fewer sequences.
  std::span<const int32_t> lengths() const { return lengths_; }

  std::span<const int64_t> pointers() const { return pointers_; }

 private:
  /// A sequence of a bucket, and the number of its run.
  struct Place {
    uint32_t offset, run;
  };

  std::vector<Place> places_;  // bucket after bucket
  std::vector<size_t> ends_;   // of the buckets there
  std::vector<int32_t> lengths_;
  std::vector<int64_t> pointers_;
};

}  // namespace meg::dataset
