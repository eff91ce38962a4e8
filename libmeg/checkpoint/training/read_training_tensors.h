#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The caller's memory into which a tensor is read.
struct TrainingTensorTarget {
  std::string name;  ///< Canonical, with the layer's number in the whole model.
  /// "weight", "fp32_param", "exp_avg" or "exp_avg_sq".
  std::string kind = "weight";
  DType dtype = DType::kFloat32;  ///< float32, float16 or bfloat16; elements are converted.
  std::vector<int64_t> shape;     ///< Shape of this rank's shard.
  std::span<std::byte> bytes;     ///< The product of shape times dtype_size(dtype).
};

/// One of the ranks that split a parameter.
struct TensorParallelPlace {
  int64_t rank = 0, size = 1;
};

struct TrainingTensorOptions {
  /// Layout of the run that loads.
  int64_t tensor_model_parallel_size = 1, tensor_rank = 0;
  /// Where others split experts.
  std::optional<TensorParallelPlace> of_experts = std::nullopt;
  /// Reads fp32 masters instead of 16-bit weights if the target has another dtype, where rounding
  /// makes a difference. Set it to false if the run does not load the optimizer: it then starts
  /// from the weights, as Megatron does.
  bool use_masters = true;
  int workers = 0;  ///< Threads that read; 0: one per processor.
};

/// Fills each target, whatever the checkpoint's layout, names and precision are: 16-bit weights are
/// widened (masters taken instead, see above), fp32 ones rounded to nearest even. A vocabulary that
/// is padded to more rows than the checkpoint's repeats the last row, with moments of zero; one
/// with fewer rows drops the rest. Moments of a checkpoint from before the first step are zero.
/// kNotFound if the checkpoint has no such parameter or state, kInvalidArgument if the shape
/// differs, kCorruption if a tensor does not match its CRC in the file; messages name the folder or
/// the file and the parameter.
Status read_training_tensors(const MegatronCheckpoint& checkpoint,
                             std::span<const TrainingTensorTarget> targets,
                             const TrainingTensorOptions& options = {});

}  // namespace meg::checkpoint
