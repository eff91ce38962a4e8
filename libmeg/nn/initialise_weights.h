#pragma once

#include <cstdint>

#include "libmeg/nn/gpt_model.h"

namespace meg::nn {

/// Fills a model with random weights. Matrices are normal with mean 0 and standard deviation
/// init_method_std, or init_method_std / sqrt(2 num_layers) if they write to the residual stream
/// (linear_proj, linear_fc2); with init_method_xavier_uniform all are uniform within sqrt(6 / (rows
/// + columns)). Norms' weights are one (stored as zero with apply_layernorm_1p), biases zero. Each
/// parameter draws from a generator of its own, seeded with `seed` and its name, in fp32 on the
/// CPU: the same numbers on every device, in every dtype, in every pipeline stage and on any number
/// of tensor-parallel ranks, which take their parts of the whole matrix. Mirrors Megatron-LM
/// megatron/core/utils.py: init_method_normal, scaled_init_method_normal.
Status initialise_weights(GptModel& model, uint64_t seed);

}  // namespace meg::nn
