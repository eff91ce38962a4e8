#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// gelu(input + bias) in the tanh form, with both steps and their gradients fused.
/// input: [.., n]; bias: [n]; on one device.
/// Mirrors Megatron-LM megatron/core/fusions/fused_bias_gelu.py.
at::Tensor bias_gelu(const at::Tensor& input, const at::Tensor& bias);

}  // namespace meg::nn
