#pragma once

#include <cstdint>
#include <memory>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// The transpose of a matrix: [rows, columns] of a source that holds [columns, rows]. Each thread
/// keeps what it transposed last, 12 MiB of it, for reads that follow each other, and has a matrix
/// of up to 12 MiB that is one stretch of a file mapped while it reads it.
std::shared_ptr<const TensorSource> transposed_source(std::shared_ptr<const TensorSource> source,
                                                      int64_t rows, int64_t columns);

/// What the calling thread may keep and have mapped from now on, in bytes; three rows of a result
/// at least. One half is for each.
void share_transposed_memory(int64_t bytes);

}  // namespace meg::checkpoint
