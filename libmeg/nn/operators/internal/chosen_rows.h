#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// Selects rows, [n] below b * s, of hidden states [b, s, h]: [1, n, h]; returns the states
/// themselves if rows is undefined.
at::Tensor chosen_rows(const at::Tensor& hidden_states, const at::Tensor& rows);

}  // namespace meg::nn
