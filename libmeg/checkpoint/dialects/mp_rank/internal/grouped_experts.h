#pragma once

#include <cstdint>
#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// If a rank's file holds the experts of a layer in two matrices (`mlp.experts.weight1` and
/// `weight2`, core's grouped form before Transformer Engine's, --moe-use-legacy-grouped-gemm),
/// returns the file with these under the names of one expert, so that they and their optimizer are
/// read like any other parameter. Returns other files unchanged, as the same pointer.
Result<std::shared_ptr<const TorchFile>> with_experts_as_one(std::shared_ptr<const TorchFile> file);

/// Converts such a file to the form with a matrix for each expert, its plain optimizer included.
/// file: as changed by with_experts_as_one(); experts: of this rank, in each layer; table: nullptr
/// leaves the optimizer out.
/// Mirrors Megatron-LM's GroupedMLP.forward: weight1 is viewed as [experts, hidden, rows of
/// linear_fc1], weight2 as [experts, columns of linear_fc2, hidden].
Result<std::shared_ptr<const TorchFile>> with_single_experts(
    const std::shared_ptr<const TorchFile>& file, int64_t experts,
    const model::ParameterTable* table);

}  // namespace meg::checkpoint
