#pragma once

#include <memory>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// The rank file that revisions before and after would have saved in place of those of the split
/// layout, which Megatron-LM had from June 2022 to May 2023: model_rng.pt, with what is in the
/// optim.pt of its data-parallel ranks, or in the one beside it.
/// kNotFound without optim.pt, unless args say --no-save-optim; kCorruption where both have a key,
/// or where shards do not cover the model: see with_optimizer_of_shards().
Result<TorchFile> join_split_files(const RankFolder& rank,
                                   const std::shared_ptr<const TorchFile>& model_file,
                                   const model::ParameterTable& table, PickleBudget* budget);

}  // namespace meg::checkpoint
