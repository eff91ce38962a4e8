#pragma once

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/training/training_state.h"
#include "libmeg/model/parameter_table.h"
#include "libmeg/nn/gpt_options.h"
#include "libmeg/nn/random_states.h"

namespace meg::train {

/// The states of generators for a checkpoint: Megatron's generators that this trainer does not use,
/// as Megatron seeds them, and those of dropout, on a GPU in place of Megatron's, on a CPU beside
/// them.
/// part: the part of the model whose dropout uses them.
Result<checkpoint::RngState> save_generators(int64_t seed, model::NameFamily family,
                                             const nn::ModelPart& part,
                                             const nn::RandomStates& generators);

/// Restores the states of dropout. States of another kind of device are ignored: dropout then
/// continues as seeded.
Status restore_generators(const checkpoint::RngState& saved, nn::RandomStates& generators);

}  // namespace meg::train
