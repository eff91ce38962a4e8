#pragma once

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/training/training_state.h"
#include "libmeg/model/parameter_table.h"
#include "libmeg/nn/gpt_options.h"
#include "libmeg/nn/random_states.h"

namespace meg::train {

/// What a checkpoint keeps of the generators: those of Megatron that this trainer does not use as
/// Megatron seeds them, and dropout's own states: on a GPU where Megatron's stand, on a CPU beside
/// them.
/// part: of the model whose dropout they are.
Result<checkpoint::RngState> save_generators(int64_t seed, model::NameFamily family,
                                             const nn::ModelPart& part,
                                             const nn::RandomStates& generators);

/// Puts dropout's states back. States of another kind of device are left out: dropout then
/// continues as seeded.
Status restore_generators(const checkpoint::RngState& saved, nn::RandomStates& generators);

}  // namespace meg::train
