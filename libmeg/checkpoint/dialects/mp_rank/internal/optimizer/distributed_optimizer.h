#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// A rank's model_optim_rng.pt with its distrib_optim.pt as the one file that the same run without
/// --use-distributed-optimizer would have saved: parameters are found in the flat buffers by their
/// order, and their fp32 masters compared with the weights. It bears the model file's path.
/// shared_file: of one of several expert-parallel ranks the file of the first, which alone has the
/// state of what they hold alike; else state_file.
/// kUnsupported, by name: buffers that these parameters do not fill. kCorruption: masters that are
/// not those of the weights, a model file without the groups of such an optimizer.
Result<TorchFile> with_plain_optimizer(const std::shared_ptr<const TorchFile>& model_file,
                                       const std::shared_ptr<const TorchFile>& state_file,
                                       const std::shared_ptr<const TorchFile>& shared_file,
                                       const model::ParameterTable& table, int64_t pipeline_size);

/// distrib_optim.pt beside a rank's model file.
std::string distrib_optim_path(const std::string& model_file);

/// Puts the files of all ranks together so, where they have distrib_optim.pt; whether they do.
/// files: of `ranks`, those of expert-parallel ranks (expert_size of them) in a row. budget: for
/// what is opened here. kNotFound where some ranks lack it.
Result<bool> read_distributed_optimizers(const std::vector<RankFolder>& ranks,
                                         const model::ParameterTable& table, int64_t pipeline_size,
                                         int64_t expert_size, PickleBudget* budget,
                                         std::vector<std::shared_ptr<const TorchFile>>* files);

}  // namespace meg::checkpoint
