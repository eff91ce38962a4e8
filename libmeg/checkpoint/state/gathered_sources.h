#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// Sources of one type, at least one, one behind the other.
std::shared_ptr<const TensorSource> concatenated(
    std::vector<std::shared_ptr<const TensorSource>> sources);

/// Columns [first, first + count) of a row-major matrix of this many columns.
std::shared_ptr<const TensorSource> columns_of(std::shared_ptr<const TensorSource> source,
                                               int64_t columns, int64_t first, int64_t count);

/// Matrices of `rows` rows, at least one, side by side: each row is that of the first, then that of
/// the second ...
std::shared_ptr<const TensorSource> side_by_side(
    std::vector<std::shared_ptr<const TensorSource>> sources, int64_t rows);

}  // namespace meg::checkpoint
