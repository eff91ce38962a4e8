#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/checkpoint/state/piece.h"

namespace meg::checkpoint {

/// A box as rows: runs of elements that are contiguous both in the box and in the whole that
/// contains it, in row-major order.
class BoxRows {
 public:
  /// sizes: those of the whole; box: must lie inside it. The products of both must fit 63 bits.
  BoxRows(const std::vector<int64_t>& sizes, const Box& box);

  int64_t rows() const { return rows_; }

  /// Elements of each row.
  int64_t run() const { return run_; }

  /// The position of a row's first element in the whole; grows with `row`, which is from 0 to
  /// rows() - 1.
  int64_t position(int64_t row) const;

 private:
  struct Axis {
    int64_t size = 0, stride = 0;
  };

  std::vector<Axis> axes_;  // of the rows, outermost first
  int64_t rows_ = 1, run_ = 1, begin_ = 0;
};

}  // namespace meg::checkpoint
