#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// Rows, [n] of b * s, of hidden states [b, s, h]: [1, n, h]; the states themselves where rows is
/// undefined.
at::Tensor chosen_rows(const at::Tensor& hidden_states, const at::Tensor& rows);

}  // namespace meg::nn
