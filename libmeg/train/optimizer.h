#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/schedule/grad_scaler.h"
#include "libmeg/train/model_chunks.h"

namespace meg::train {

/// Adam with decoupled weight decay over all parameters of a model, the 16-bit ones with fp32
/// masters. Gradients are accumulated over micro-batches, unscaled, clipped and applied. Over
/// several ranks every function is called by all of them together. Mirrors Megatron-LM
/// megatron/core/optimizer/optimizer.py: FP32Optimizer and Float16OptimizerWithFloat16Params, and
/// distrib_optimizer.py: DistributedOptimizer.
class Optimizer {
 public:
  struct Options {
    std::array<double, 2> betas = {0.9, 0.999};  ///< --adam-beta1, --adam-beta2
    double eps = 1e-8;                           ///< --adam-eps
    double clip_grad = 1.0;                      ///< Largest gradient norm; 0: not clipped.
    bool log_num_zeros_in_grad = false;
    /// inf and NaN are errors before they are applied, save with a dynamic loss scale.
    bool check_for_nan_in_loss_and_grad = true;
    /// 16-bit gradients of micro-batches are added in fp32; for bf16 also without this flag, unless
    /// the next one is given.
    bool accumulate_allreduce_grads_in_fp32 = false;
    bool grad_reduce_in_bf16 = false;
    /// Each data-parallel rank keeps masters and moments of its share of the parameters alone.
    bool use_distributed_optimizer = false;
    /// Gradients are summed over the data-parallel ranks in buckets, each as soon as the last
    /// backward pass of a step has brought it.
    bool overlap_grad_reduce = false;
    /// A distributed optimizer's parameters are gathered, bucket by bucket, while the next forward
    /// pass continues, which waits for what it uses. With the two above.
    bool overlap_param_gather = false;
    std::optional<int64_t> ddp_bucket_size = {};  ///< Elements; unset: Megatron's. With overlap.
    std::optional<int64_t> ddp_num_buckets = {};  ///< In place of the size.
  };

  /// What the parameter groups use in a step.
  struct Rates {
    double lr = 0;
    double weight_decay = 0;  ///< Of the parameters that decay.
    /// Of the rows of the embedding and of an output layer; nullopt: lr.
    std::optional<double> decoupled_lr = std::nullopt;
  };

  /// The result of a step.
  struct Outcome {
    bool skipped = false;              ///< A gradient was inf or NaN, so nothing changed.
    double grad_norm = 0;              ///< Before clipping; of a step that was not skipped.
    std::optional<int64_t> num_zeros;  ///< With log_num_zeros_in_grad.
  };

  /// Everything that a checkpoint keeps of one parameter, in the parameter's shape: fp32.
  struct ParameterState {
    at::Tensor master;  ///< Of 16-bit parameters; else undefined.
    at::Tensor exp_avg, exp_avg_sq;
  };

  /// scaler: nullptr where nothing is scaled. The models must outlive the optimizer.
  /// ranks: the others that hold copies and parts of the model.
  static Result<std::unique_ptr<Optimizer>> create(const ModelChunks& model,
                                                   std::unique_ptr<schedule::GradScaler> scaler,
                                                   const Options& options,
                                                   const parallel::ParallelState& ranks = {});
  ~Optimizer();

  /// Whether inf and NaN in losses and gradients are errors, and not signals to a loss scaler.
  bool checks_for_nan() const;

  /// What the loss is multiplied with before backward.
  double loss_scale() const;

  /// How a step's gradients are handled.
  struct StepGradients {
    /// The step has one micro-batch and its gradients are not scaled, so that they are read where
    /// autograd left them.
    bool only = false;
    double scale = 1;  ///< Before they are summed over the data-parallel ranks.
  };

  /// Forgets the gradients of the step before; backward passes add theirs from here on.
  Status zero_grad(const StepGradients& step);

  /// Whether a backward pass that follows is the last one of its chunk of the model in this step.
  void expect_gradients(bool last);

  /// After the last micro-batch: gradients become those of all ranks.
  Status reduce_gradients();

  /// Multiplies the accumulated gradients.
  Status scale_gradients(double factor);

  /// Applies the accumulated gradients. If one is inf or NaN, nothing changes: with
  /// checks_for_nan() that is kOutOfRange, naming its parameter, else with a loss scale a skipped
  /// step, after which a dynamic one falls. Without a loss scale it is applied.
  Result<Outcome> step(const Rates& rates);

  /// Waits for parameters that are still gathered. With overlap_param_gather to be called before
  /// anything but the model's own passes reads or writes its tensors.
  Status finish_gathers();

  /// In the order of the model's parameters. For an ordinary optimizer these are its own tensors,
  /// which may be written between steps; for a distributed one, copies merged from all ranks'
  /// shares.
  Result<std::vector<ParameterState>> states();

  /// After states() was written: a distributed optimizer takes its share.
  Status take_states(const std::vector<ParameterState>& states);

  /// After weights were put into the model: masters follow them.
  Status copy_model_to_masters();
  /// After masters were put back: the model follows them.
  Status copy_masters_to_model();

  /// The L2 norm of all parameters, of bf16 ones' masters: Megatron's calc_params_l2_norm since
  /// core_v0.11.
  Result<double> params_norm();

  /// Bytes of the tensors that this rank keeps: model::rank_memory() says them before.
  struct Held {
    int64_t parameters = 0;
    int64_t gradients = 0;  ///< 0 where they stay with autograd.
    int64_t state = 0;      ///< Masters and moments.
  };

  Held held_bytes() const;

  int64_t updates() const;  ///< Steps that were not skipped.
  void set_updates(int64_t updates);

  schedule::GradScaler* scaler();

  const Options& options() const;

 private:
  struct State;
  explicit Optimizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meg::train
