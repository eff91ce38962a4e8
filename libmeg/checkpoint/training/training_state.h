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

/// A tensor handed over to be saved: elements in row-major order, little-endian.
struct TrainingTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;        ///< Of this rank's shard.
  std::span<const std::byte> bytes;  ///< The product of shape times dtype_size(dtype).
  /// Keeps `bytes` alive as long as this object or a copy of it; several tensors may share one
  /// buffer. Empty where the caller keeps the bytes until the save has ended.
  std::shared_ptr<const void> owner = {};
};

/// A parameter of this rank and what the optimizer keeps for it, all of one shape.
struct TrainingParameter {
  /// Canonical, with the layer's number in the whole model (RankParameter::name).
  std::string name;
  TrainingTensor weight;
  std::optional<TrainingTensor> fp32_param;  ///< The master of a 16-bit weight.
  /// Adam's moments, fp32. On all parameters, or before the first step on none.
  std::optional<TrainingTensor> exp_avg, exp_avg_sq;
};

/// What is the same for all parameters of an optimizer's group.
/// Mirrors Megatron-LM's get_param_groups and apex's FusedAdam.
struct ParamGroupState {
  double wd_mult = 1.0;  ///< 1 with weight decay, 0 without.
  double lr_mult = 1.0;
  double lr = 0.0;  ///< Of the next step, as the scheduler left it.
  bool bias_correction = true;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;          ///< Of the next step, wd_mult included.
  std::optional<int64_t> step = {};   ///< Updates done; empty before the first.
  double max_lr = 0.0, min_lr = 0.0;  ///< Since core only.
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
  /// With --decoupled-lr: the embedding and the output layer, which decay too.
  std::optional<ParamGroupState> decoupled = {};
  std::optional<GradScalerState> grad_scaler;  ///< With mixed_precision only.
};

/// A dict of plain values in its order: names and values, ints and floats told apart.
using StateFields = std::vector<std::pair<std::string, megatron::FieldValue>>;

/// A Mersenne Twister of Python's `random` or numpy's global generator.
struct MersenneState {
  static constexpr size_t kWords = 624;
  std::array<uint32_t, kWords> words = {};
  int64_t position = kWords;              ///< Of the next word; kWords: all are used up.
  std::optional<double> next_gauss = {};  ///< The second of a pair of normal numbers.
};

/// The generators of one data-parallel rank.
struct RngState {
  MersenneState python_random, numpy_random;
  std::vector<std::byte> torch;  ///< 5056 bytes, as torch.get_rng_state() gives them.
  std::vector<std::byte> cuda;   ///< 16 bytes: seed and offset, of 64 bits each.
  using Tracker = std::vector<std::pair<std::string, std::vector<std::byte>>>;
  Tracker tracker;  ///< Name ("model-parallel-rng") and state of a CUDA generator, 16 bytes.
  /// What Megatron does not have: the same of generators on the CPU (5056 bytes), of runs there.
  /// Saved beside the others, under a key that Megatron does not look at.
  Tracker cpu_tracker;
};

/// Everything that one rank saves and a resumed run needs. No tensor library's types: whoever holds
/// this may write it from another thread.
struct TrainingState {
  int64_t iteration = 0;  ///< Finished ones.
  int64_t consumed_train_samples = 0, consumed_valid_samples = 0;
  /// Saved as argparse.Namespace, its consumed samples taken from above. It says the model's shape
  /// (GptConfig::from_fields) and the parallel sizes.
  TrainingArgs args;
  int64_t tensor_rank = 0, pipeline_rank = 0;
  /// Of the ranks that hold the same parameters, and how many they are.
  int64_t data_rank = 0, data_size = 1;
  std::vector<TrainingParameter> parameters;  ///< In any order; empty where read.
  std::optional<OptimizerState> optimizer;
  /// OptimizerParamScheduler.state_dict(); its steps are samples.
  std::optional<StateFields> opt_param_scheduler;
  std::optional<RngState> rng;
  /// A number, since core only. Megatron begins at the int 0 and adds floats.
  megatron::FieldValue num_floating_point_operations_so_far = int64_t{0};
};

}  // namespace meg::checkpoint
