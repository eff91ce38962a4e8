#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::checkpoint {

/// Reverses the bytes of every number in `bytes` (of both halves of complex ones), whose length is
/// a multiple of theirs.
void swap_bytes(DType dtype, std::span<std::byte> bytes);

/// Copies elements [first, first + into.size() / item) of a view, in row-major order, as they stand
/// in the file. The view lies inside its storage and the elements inside the view. Reads in the
/// file's order through a small window, whatever the view's strides are.
Status gather_elements(const io::FileDescriptor& file, const TorchStorage& storage,
                       const TensorView& view, int64_t first, std::span<std::byte> into);

}  // namespace meg::checkpoint
