#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"

namespace meg::checkpoint {

/// A tensor to be saved: elements in row-major order, little-endian.
struct TrainingTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;        ///< Shape of this rank's shard.
  std::span<const std::byte> bytes;  ///< The product of shape times dtype_size(dtype).
  /// Keeps `bytes` alive as long as this object or a copy of it; several tensors may share one
  /// buffer. Empty if the caller keeps the bytes until the save has ended.
  std::shared_ptr<const void> owner = {};
};

/// A parameter of this rank and its optimizer state, all of one shape.
struct TrainingParameter {
  /// Canonical, with the layer's number in the whole model (RankParameter::name).
  std::string name;
  TrainingTensor weight;
  std::optional<TrainingTensor> fp32_param;  ///< The master of a 16-bit weight.
  /// Adam's moments, fp32: for all parameters, or, before the first step, for none.
  std::optional<TrainingTensor> exp_avg, exp_avg_sq;
};

/// The settings shared by all parameters of an optimizer's group.
/// Mirrors Megatron-LM's get_param_groups and apex's FusedAdam.
struct ParamGroupState {
  double wd_mult = 1.0;  ///< 1 with weight decay, 0 without.
  double lr_mult = 1.0;
  double lr = 0.0;  ///< For the next step, as the scheduler left it.
  bool bias_correction = true;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;          ///< For the next step, wd_mult included.
  std::optional<int64_t> step = {};   ///< Updates done; empty before the first.
  double max_lr = 0.0, min_lr = 0.0;  ///< Only in core.
};

/// The loss scaler of fp16. Mirrors Megatron-LM's DynamicGradScaler, and ConstantGradScaler, whose
/// state is empty.
struct GradScalerState {
  struct Dynamic {
    float scale = 0.0F;
    int64_t growth_tracker = 0, hysteresis_tracker = 0;
  };

  std::optional<Dynamic> dynamic;  ///< Empty: a constant scale.
};

struct OptimizerState {
  /// Megatron's Float16OptimizerWithFloat16Params (16-bit weights with masters); else
  /// FP32Optimizer.
  bool mixed_precision = false;
  ParamGroupState decay, no_decay;
  /// The embedding and the output layer with --decoupled-lr; they decay too.
  std::optional<ParamGroupState> decoupled = {};
  std::optional<GradScalerState> grad_scaler;  ///< With mixed_precision only.
};

/// A dict of plain values in order: names and values, with ints distinct from floats.
using StateFields = std::vector<std::pair<std::string, megatron::FieldValue>>;

/// A Mersenne Twister of Python's `random` or numpy's global generator.
struct MersenneState {
  static constexpr size_t kWords = 624;
  std::array<uint32_t, kWords> words = {};
  int64_t position = kWords;              ///< Index of the next word; kWords: all are used up.
  std::optional<double> next_gauss = {};  ///< The second of a pair of normal numbers.
};

/// The generators of one data-parallel rank.
struct RngState {
  MersenneState python_random, numpy_random;
  std::vector<std::byte> torch;  ///< 5056 bytes, as torch.get_rng_state() gives them.
  std::vector<std::byte> cuda;   ///< 16 bytes: seed and offset, of 64 bits each.
  using Tracker = std::vector<std::pair<std::string, std::vector<std::byte>>>;
  Tracker tracker;  ///< Name ("model-parallel-rng") and state of a CUDA generator, 16 bytes.
  /// The same for generators on the CPU (5056 bytes), used by runs on CPUs, which Megatron does not
  /// have. Saved under a key that Megatron ignores.
  Tracker cpu_tracker;
};

/// Everything that one rank saves and a resumed run needs. It has no types of a tensor library, so
/// any thread may write it.
struct TrainingState {
  int64_t iteration = 0;  ///< Number of finished iterations.
  int64_t consumed_train_samples = 0, consumed_valid_samples = 0;
  /// Saved as argparse.Namespace, with the consumed samples given above. They include the model's
  /// shape (GptConfig::from_fields) and the parallel sizes.
  TrainingArgs args;
  int64_t tensor_rank = 0, pipeline_rank = 0;
  /// The number of this rank among those that hold the same parameters, and how many there are.
  int64_t data_rank = 0, data_size = 1;
  /// The number of this rank among those that have different experts, and the same as above of
  /// those that hold the same experts. Their sizes are args'.
  int64_t expert_rank = 0;
  int64_t expert_data_rank = 0, expert_data_size = 1;
  std::vector<TrainingParameter> parameters;  ///< In any order; empty after reading.
  std::optional<OptimizerState> optimizer;
  /// OptimizerParamScheduler.state_dict(); its steps are samples.
  std::optional<StateFields> opt_param_scheduler;
  std::optional<RngState> rng;
  /// A number, only in core. Megatron begins at the int 0 and adds floats.
  megatron::FieldValue num_floating_point_operations_so_far = int64_t{0};
};

}  // namespace meg::checkpoint
