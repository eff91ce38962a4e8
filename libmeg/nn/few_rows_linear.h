#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// at::linear: [.., input] -> [.., output]. In inference mode on a CPU few rows go through a
/// product of libmeg's own: LibTorch's leaves half of the memory's speed unused there, and gives a
/// row other bits where the number of rows is another.
at::Tensor few_rows_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias);

}  // namespace meg::nn
