#pragma once

#include <cstdint>
#include <memory>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// The transpose of a matrix: [rows, columns] of a source that holds [columns, rows]. Each thread
/// caches up to 12 MiB of what it transposed last, for consecutive reads, and maps a matrix of up
/// to 12 MiB that is one range of a file while it reads it.
std::shared_ptr<const TensorSource> transposed_source(std::shared_ptr<const TensorSource> source,
                                                      int64_t rows, int64_t columns);

/// Sets how many bytes the calling thread may cache and map from now on, half of them for each; at
/// least three rows of a result. may_map: false where a file that is truncated meanwhile must not
/// raise SIGBUS, as mapped ones do.
void share_transposed_memory(int64_t bytes, bool may_map = true);

}  // namespace meg::checkpoint
