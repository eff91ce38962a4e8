#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

struct PlainRank {
  TorchFile file;
  std::optional<int64_t> alignment;  ///< See CutStates.
};

/// Combines a rank's model_optim_rng.pt and distrib_optim.pt into the one file that the same run
/// without --use-distributed-optimizer would have saved: finds the parameters in the flat buffers
/// by their order, and compares their fp32 masters with the weights. The result has the model
/// file's path. shared_file: if there are several expert-parallel ranks, the file of the first one,
/// which alone has the state of the parameters that they share; otherwise state_file.
/// kUnsupported: buffers that these parameters do not fill. kCorruption: masters that do not belong
/// to the weights, a model file without the groups of such an optimizer.
Result<PlainRank> with_plain_optimizer(const std::shared_ptr<const TorchFile>& model_file,
                                       const std::shared_ptr<const TorchFile>& state_file,
                                       const std::shared_ptr<const TorchFile>& shared_file,
                                       const model::ParameterTable& table, int64_t pipeline_size);

/// The path of distrib_optim.pt beside a rank's model file.
std::string distrib_optim_path(const std::string& model_file);

/// The distributed optimizers of all ranks.
struct DistributedOptimizers {
  std::vector<std::shared_ptr<const TorchFile>> files;  ///< distrib_optim.pt of each rank.
  std::optional<int64_t> alignment;                     ///< See CutStates.
};

/// Combines the files of all ranks in this way if they have distrib_optim.pt, and returns these;
/// none if the ranks have none. files_of_tensor_rank: files in a row that differ in the
/// expert-parallel rank alone.
Result<DistributedOptimizers> read_distributed_optimizers(
    const std::vector<RankFolder>& ranks, const model::ParameterTable& table, int64_t pipeline_size,
    int64_t files_of_tensor_rank, const TorchFileOptions& options,
    std::vector<std::shared_ptr<const TorchFile>>* files);

}  // namespace meg::checkpoint
