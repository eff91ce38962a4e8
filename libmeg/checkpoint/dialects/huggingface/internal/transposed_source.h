#pragma once

#include <memory>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// The transpose of a matrix: [rows, columns] of a source that holds [columns, rows]. Reads whole
/// stretches of the source's rows, so the longer what is asked for, the fewer reads.
std::shared_ptr<const TensorSource> transposed_source(std::shared_ptr<const TensorSource> source,
                                                      int64_t rows, int64_t columns);

}  // namespace meg::checkpoint
