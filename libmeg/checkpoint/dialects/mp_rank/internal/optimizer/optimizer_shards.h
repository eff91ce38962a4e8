#pragma once

#include <memory>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// A rank's model_rng.pt with the shards that its data-parallel ranks saved of their distributed
/// optimizer until May 2023, as the one file that the same run with the plain optimizer would have
/// saved. It bears the model file's path; no state is read before somebody copies it.
/// shards: the optim.pt of all data-parallel ranks, in their order, at least one.
/// kCorruption, by name: another number of shards than args say, parts of other lengths than the
/// parameters', masters that are not those of the weights, shards whose settings differ.
Result<TorchFile> with_optimizer_of_shards(
    const std::shared_ptr<const TorchFile>& model_file,
    const std::vector<std::shared_ptr<const TorchFile>>& shards,
    const model::ParameterTable& table);

}  // namespace meg::checkpoint
