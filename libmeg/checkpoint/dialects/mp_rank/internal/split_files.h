#pragma once

#include <memory>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"

namespace meg::checkpoint {

/// The rank file that revisions before and after would have saved in place of the two of the split
/// layout, by which Megatron-LM was developed from March 2022 to May 2023: model_rng.pt, with what
/// is in optim.pt beside it.
/// kNotFound without optim.pt, unless args say --no-save-optim; kUnsupported where it is in shards
/// of data-parallel ranks, each in a folder of its own; kCorruption where both have a key.
Result<TorchFile> join_split_files(const CheckpointFolder& folder, const RankFolder& rank,
                                   const std::shared_ptr<const TorchFile>& model_file,
                                   PickleBudget* budget);

}  // namespace meg::checkpoint
