#pragma once

#include <cstdint>

#include "libmeg/nn/gpt_model.h"

namespace meg::nn {

/// Random weights: matrices normal with mean 0 and deviation init_method_std, those that write to
/// the residual stream (linear_proj, linear_fc2) with init_method_std / sqrt(2 num_layers); with
/// init_method_xavier_uniform all of them uniform within sqrt(6 / (rows + columns)). Norms' weights
/// are one (stored as zero with apply_layernorm_1p), biases zero. Each parameter draws from a
/// generator of its own, seeded with `seed` and its name, in fp32 on the CPU: the same numbers on
/// every device, in every type, in every pipeline stage and on any number of tensor-parallel ranks,
/// which cut the whole matrix. Mirrors Megatron-LM
/// megatron/core/utils.py: init_method_normal, scaled_init_method_normal.
Status initialise_weights(GptModel& model, uint64_t seed);

}  // namespace meg::nn
