#pragma once

#include <cstdint>
#include <memory>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// A rank's model_optim_rng.pt with its distrib_optim.pt as the one file that the same run without
/// --use-distributed-optimizer would have saved: parameters are found in the flat buffers by their
/// order, and their fp32 masters compared with the weights. It bears the model file's path.
/// kUnsupported, by name: buffers that these parameters do not fill. kCorruption: masters that are
/// not those of the weights, a model file without the groups of such an optimizer.
Result<TorchFile> with_plain_optimizer(const std::shared_ptr<const TorchFile>& model_file,
                                       const std::shared_ptr<const TorchFile>& state_file,
                                       const model::ParameterTable& table, int64_t pipeline_size);

/// distrib_optim.pt beside a rank's model file.
std::string distrib_optim_path(const std::string& model_file);

/// Puts all ranks' files together so, where the folder has distrib_optim.pt. kNotFound where some
/// ranks lack it.
Status read_distributed_optimizers(const CheckpointFolder& folder,
                                   const model::ParameterTable& table, RankFiles* ranks);

}  // namespace meg::checkpoint
