#pragma once

#include <memory>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// Combines a rank's model_rng.pt with the shards of the distributed optimizer that its
/// data-parallel ranks saved until May 2023 into the one file that the same run with the plain
/// optimizer would have saved. The result has the model file's path; state is read only when it is
/// copied.
/// shards: the optim.pt of all data-parallel ranks, in their order, at least one.
/// kCorruption: another number of shards than args state, parts of other lengths than the
/// parameters', masters that do not belong to the weights, shards whose settings differ.
Result<TorchFile> with_optimizer_of_shards(
    const std::shared_ptr<const TorchFile>& model_file,
    const std::vector<std::shared_ptr<const TorchFile>>& shards,
    const model::ParameterTable& table);

}  // namespace meg::checkpoint
