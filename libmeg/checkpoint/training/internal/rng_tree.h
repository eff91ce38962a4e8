#pragma once

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/training/training_tree.h"

namespace meg::checkpoint {

/// The value under "rng_state": a list of one data-parallel rank's generators, as
/// Megatron-LM's get_rng_state() makes it.
PickleId add_rng_state(const RngState& state, TrainingTree* tree);

/// Reads the generators of data-parallel rank `data_rank` from a file (if the list has one entry,
/// that of all ranks); files from before 2023 have them beside the model. kNotFound if there are
/// none, kCorruption if they are not of the form that their generators save; messages start with
/// the path.
Result<RngState> read_rng_state(const TorchFile& file, int64_t data_rank = 0);

}  // namespace meg::checkpoint
