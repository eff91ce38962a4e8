#pragma once

#include <cstdint>

#include "libmeg/checkpoint/training/training_state.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// The generators as Megatron seeds them when a run starts, in the form that Megatron restores, for
/// those that a trainer without Python does not use itself.
/// seed: Megatron's --seed, > 0; a pipeline rank adds 100 times its number. The torch state is that
/// of the CPU's generator; callers may replace it by their own. family: legacy revisions track one
/// generator, core three.
/// Mirrors Megatron-LM megatron/training/initialize.py: _set_random_seed, and
/// megatron/core/tensor_parallel/random.py: model_parallel_cuda_manual_seed.
RngState seeded_rng_state(int64_t seed, int64_t tensor_rank, int64_t pipeline_rank,
                          model::NameFamily family);

/// random.seed(seed) of Python, for 0 <= seed < 2^32.
MersenneState seeded_python_random(uint32_t seed);

/// numpy.random.seed(seed).
MersenneState seeded_numpy_random(uint32_t seed);

/// torch.get_rng_state() after torch.manual_seed(seed).
std::vector<std::byte> seeded_torch_state(int64_t seed);

/// A CUDA generator's state after manual_seed(seed): offset 0.
std::vector<std::byte> seeded_cuda_state(int64_t seed);

}  // namespace meg::checkpoint
