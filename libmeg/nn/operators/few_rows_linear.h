#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace meg::nn {

/// The most rows that are few; from here on LibTorch's products are as fast.
constexpr int64_t kFewRows = 64;

/// Whether few_rows_linear() is the product to take: in inference mode, on a CPU, for rows so few
/// that LibTorch's products leave much of the processor unused and give a row other bits where the
/// number of rows is another.
bool has_few_rows(const at::Tensor& input, const at::Tensor& weight);

/// As at::linear: [.., input] -> [.., output]; bias may be undefined. A row's bits do not depend on
/// the others.
at::Tensor few_rows_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias);

}  // namespace meg::nn
