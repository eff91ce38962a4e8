#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace meg::nn {

/// The maximum of rows that count as few; with more, LibTorch's products are as fast.
constexpr int64_t kFewRows = 64;

/// Whether few_rows_linear() should compute a product: in inference mode on a CPU, for so few rows
/// that LibTorch's products would leave much of the processor unused and give a row different bits
/// for different numbers of rows.
bool has_few_rows(const at::Tensor& input, const at::Tensor& weight);

/// Like at::linear: [.., input] -> [.., output]; bias may be undefined. The bits of a row do not
/// depend on the other rows.
at::Tensor few_rows_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias);

}  // namespace meg::nn
