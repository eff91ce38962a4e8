#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"

namespace meg::dataset {

/// The number of sequences whose lengths are in [from, to].
struct LengthBucket {
  int32_t from = 0;
  int32_t to = 0;
  int64_t sequences = 0;
};

/// Lengths of the sequences of a dataset, in items. All 0 if it has none.
struct LengthSummary {
  int64_t total = 0;
  int32_t min = 0;
  int32_t max = 0;
  double mean = 0;
  /// The smallest length that at least 50, 90, 99 % of the sequences do not exceed.
  int32_t median = 0;
  int32_t p90 = 0;
  int32_t p99 = 0;
  /// 0, 1, 2 to 3, 4 to 7, ...: from the first bucket to the last that holds a sequence.
  std::vector<LengthBucket> histogram;
};

/// Reads every length once or, for lengths of 65536 and more, up to four times (4 bytes a
/// sequence), in bounded memory, and nothing else. kCorruption for a negative length.
Result<LengthSummary> summarize_lengths(const IndexedDataset& dataset);

}  // namespace meg::dataset
