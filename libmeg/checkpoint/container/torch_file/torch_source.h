#pragma once

#include <memory>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// The elements of a tensor of a torch file in row-major order, whatever its strides and the file's
/// byte order are.
std::shared_ptr<const TensorSource> torch_source(std::shared_ptr<const TorchFile> file,
                                                 const TensorView& view);

}  // namespace meg::checkpoint
