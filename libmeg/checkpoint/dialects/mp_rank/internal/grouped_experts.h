#pragma once

#include <cstdint>
#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// A rank's file of which the experts of a layer stand in two matrices (`mlp.experts.weight1` and
/// `weight2`, core's grouped form before Transformer Engine's, --moe-use-legacy-grouped-gemm) with
/// these under the names of one expert, so that they and their optimizer are read as any other
/// parameter; other files as they are, the same pointer.
Result<std::shared_ptr<const TorchFile>> with_experts_as_one(std::shared_ptr<const TorchFile> file);

/// The file that it would be with one expert after another, its plain optimizer too.
/// file: of with_experts_as_one(), which changed it; experts: of this rank, in each layer; table:
/// nullptr leaves the optimizer out.
/// Mirrors Megatron-LM's GroupedMLP.forward: weight1 is seen as [experts, hidden, rows of
/// linear_fc1], weight2 as [experts, columns of linear_fc2, hidden].
Result<std::shared_ptr<const TorchFile>> with_single_experts(
    const std::shared_ptr<const TorchFile>& file, int64_t experts,
    const model::ParameterTable* table);

}  // namespace meg::checkpoint
