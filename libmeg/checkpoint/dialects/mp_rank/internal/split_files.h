#pragma once

#include <memory>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// Joins the files of the split layout, which Megatron-LM used from June 2022 to May 2023, into the
/// rank file of the revisions before and after: model_rng.pt with the contents of the optim.pt of
/// its data-parallel ranks, or of the one beside it.
/// kNotFound without optim.pt, unless args contain --no-save-optim; kCorruption if both files have
/// the same key, or if shards do not cover the model: see with_optimizer_of_shards().
/// sources: every file that is opened is added to them.
Result<TorchFile> join_split_files(const RankFolder& rank,
                                   const std::shared_ptr<const TorchFile>& model_file,
                                   const model::ParameterTable& table,
                                   const TorchFileOptions& options,
                                   std::vector<std::shared_ptr<const TorchFile>>* sources);

}  // namespace meg::checkpoint
