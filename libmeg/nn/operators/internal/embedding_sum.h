#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// The sum of rows of a table of words and, if defined, a table of positions: [b, s, h]. words: [v,
/// h]; tokens: [b, s] int64; positions: [p, h]; position_ids: [b or 1, s] int64, undefined: 0 to s
/// - 1. Its backward pass sums the gradients of a row in a fixed order, directly into main
/// gradients if there are any.
at::Tensor embedding_sum(const at::Tensor& words, const at::Tensor& tokens,
                         const at::Tensor& positions, const at::Tensor& position_ids);

}  // namespace meg::nn
