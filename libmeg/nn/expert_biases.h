#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "libmeg/nn/parameter_store.h"

namespace meg::nn {

/// The tokens that each expert got, [routers, experts] fp32.
at::Tensor tokens_per_expert(std::span<const ExpertBias> biases);

/// Raises, by `rate`, the bias of each expert that got fewer tokens than the router's experts did
/// on average, lowers that of those that got more, and resets the counts. tokens:
/// tokens_per_expert() of all ranks together. Mirrors Megatron-LM
/// megatron/core/transformer/moe/moe_utils.py: get_updated_expert_bias.
void move_expert_biases(std::span<const ExpertBias> biases, const at::Tensor& tokens, double rate);

}  // namespace meg::nn
