#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// Whether LibTorch's own products of such matrices take several times as long as in fp32, as for
/// 16-bit matrices on a CPU without instructions for their dtype.
bool is_widened(const at::Tensor& matrix);

/// first [.., m, k] x the transpose of second [.., n, k] x scale + bias [n] (undefined: none), both
/// of two or of three dimensions, computed in fp32 and rounded once to their 16-bit dtype, as are
/// the gradients, for which only the 16-bit matrices are kept.
at::Tensor widened_product(const at::Tensor& first, const at::Tensor& second,
                           const at::Tensor& bias = {}, double scale = 1);

}  // namespace meg::nn
