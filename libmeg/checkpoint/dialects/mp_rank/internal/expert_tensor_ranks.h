#pragma once

#include <memory>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_grid.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// The files of a run with --expert-tensor-parallel-size as a run would have saved them whose
/// experts are divided over all tensor-parallel ranks: one for each tensor-parallel and each
/// expert-parallel rank, the latter in a row, stage by stage. What is not an expert's is taken from
/// the first file of the tensor-parallel rank.
/// files: in the order of the grid, stage by stage, with plain optimizers. config: the model's.
/// optimizer_table: nullptr leaves optimizers out. kCorruption if ranks have different parameters
/// or state; kUnsupported if the tensor-parallel ranks cannot divide the experts.
Result<std::vector<std::shared_ptr<const TorchFile>>> with_experts_over_tensor_ranks(
    const std::vector<std::shared_ptr<const TorchFile>>& files, const RankGrid& grid,
    const model::GptConfig& config, const model::ParameterTable* optimizer_table);

}  // namespace meg::checkpoint
