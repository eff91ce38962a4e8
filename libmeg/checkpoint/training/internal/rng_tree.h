#pragma once

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/training/training_tree.h"

namespace meg::checkpoint {

/// The value under "rng_state": a list of one data-parallel rank's generators, as
/// Megatron-LM's get_rng_state() makes it.
PickleId add_rng_state(const RngState& state, TrainingTree* tree);

/// The generators of data-parallel rank `data_rank` in a file (where the list has one entry: of
/// all); files of before 2023 have them beside the model. kNotFound where there are none,
/// kCorruption where they are not what their generators save; messages start with the path.
Result<RngState> read_rng_state(const TorchFile& file, int64_t data_rank = 0);

}  // namespace meg::checkpoint
