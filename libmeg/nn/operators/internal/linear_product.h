#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// input [.., k] x the transpose of weight [n, k] + bias [n] (undefined: none), as at::linear. In
/// LibTorch's inference mode on a CPU, few rows are computed by few_rows_linear() and others in
/// fp32 by oneDNN, whose products are faster than MKL's. In training, forward passes with and
/// without gradients use the same product. Matrices whose dtype a CPU has no instructions for are
/// widened.
at::Tensor linear_product(const at::Tensor& input, const at::Tensor& weight,
                          const at::Tensor& bias = {});

}  // namespace meg::nn
