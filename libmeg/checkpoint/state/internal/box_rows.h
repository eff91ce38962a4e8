#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/checkpoint/state/piece.h"

namespace meg::checkpoint {

/// A box as the runs of elements that stand one after another in the whole that it is cut out of,
/// in row-major order of both.
class BoxRows {
 public:
  /// sizes: of the whole; box: inside it. Neither overflows 63 bits.
  BoxRows(const std::vector<int64_t>& sizes, const Box& box);

  int64_t rows() const { return rows_; }

  /// Elements of each row.
  int64_t run() const { return run_; }

  /// Where a row begins in the whole. row: from 0 to rows() - 1; ascending with it.
  int64_t position(int64_t row) const;

 private:
  struct Axis {
    int64_t size = 0, stride = 0;
  };

  std::vector<Axis> axes_;  // of the rows, outermost first
  int64_t rows_ = 1, run_ = 1, begin_ = 0;
};

}  // namespace meg::checkpoint
