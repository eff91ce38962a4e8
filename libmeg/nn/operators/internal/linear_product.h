#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// input [.., k] x the transpose of weight [n, k] + bias [n] (undefined: none), as at::linear. In
/// LibTorch's inference mode on a CPU few rows go to few_rows_linear(), others in fp32 to oneDNN,
/// whose products are quicker than MKL's; training keeps one and the same product in forward passes
/// with and without gradients. Matrices for whose type a CPU has no instructions are widened.
at::Tensor linear_product(const at::Tensor& input, const at::Tensor& weight,
                          const at::Tensor& bias = {});

}  // namespace meg::nn
