#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// silu(gate) * up and its gradient, fused. input: [.., 2 * n], the gates first.
/// Mirrors Megatron-LM megatron/core/fusions/fused_bias_swiglu.py.
at::Tensor swiglu(const at::Tensor& input);

}  // namespace meg::nn
