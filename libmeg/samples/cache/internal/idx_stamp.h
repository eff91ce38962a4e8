#pragma once

#include <cstdint>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"

namespace meg::samples {

/// Identifies an .idx file without reading all of it.
struct IdxStamp {
  int64_t size = 0;      ///< Bytes
  int64_t mtime_ns = 0;  ///< Of the last change, nanoseconds since 1970.
  std::string xxh3;      ///< Of the header and both ends of each array.
};

/// An IdxStamp without a time: equal to no file's.
inline constexpr int64_t kNoTime = -1;

/// The stamp to keep: without its time where that is so young that a change which is still to come
/// may bear the same.
IdxStamp stamp_to_keep(IdxStamp stamp);

/// The stamp of a dataset's .idx file. kNotFound where the file is gone by now.
Result<IdxStamp> stamp_idx(const dataset::IndexedDataset& dataset);

/// What a pass over the lengths of some sequences gives.
struct LengthTotals {
  int64_t tokens = 0;
  int64_t longest = 0;  ///< Tokens
  std::string xxh3;     ///< Of the lengths as they stand in the file.
};

/// Passes once over the lengths of `range`, in bounded memory. kOutOfRange where the dataset has
/// no such range, kCorruption for a negative length and for a sum that does not fit.
Result<LengthTotals> total_lengths(const dataset::IndexedDataset& dataset,
                                   dataset::SequenceRange range);

}  // namespace meg::samples
