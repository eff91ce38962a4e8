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

/// Adam with decoupled weight decay for all parameters of a model, with fp32 masters for 16-bit
/// ones. Gradients are accumulated over micro-batches, unscaled, clipped and applied. Over several
/// ranks every function is called by all of them together. Mirrors Megatron-LM
/// megatron/core/optimizer/optimizer.py: FP32Optimizer and Float16OptimizerWithFloat16Params, and
/// distrib_optimizer.py: DistributedOptimizer.
class Optimizer {
 public:
  struct Options {
    std::array<double, 2> betas = {0.9, 0.999};  ///< --adam-beta1, --adam-beta2
    double eps = 1e-8;                           ///< --adam-eps
    double clip_grad = 1.0;                      ///< Maximum gradient norm; 0: no clipping.
    bool log_num_zeros_in_grad = false;
    /// Makes inf and NaN errors before they are applied, except with a dynamic loss scale.
    bool check_for_nan_in_loss_and_grad = true;
    /// Adds the 16-bit gradients of micro-batches in fp32; for bf16 this is the default unless the
    /// next flag is given.
    bool accumulate_allreduce_grads_in_fp32 = false;
    bool grad_reduce_in_bf16 = false;
    /// Each data-parallel rank keeps masters and moments only for its share of the parameters.
    bool use_distributed_optimizer = false;
    /// Sums gradients over the data-parallel ranks in buckets, each as soon as the last backward
    /// pass of a step has produced it.
    bool overlap_grad_reduce = false;
    /// Gathers a distributed optimizer's parameters bucket by bucket during the next forward pass,
    /// which waits for what it uses. Requires the two flags above.
    bool overlap_param_gather = false;
    std::optional<int64_t> ddp_bucket_size =
        {};  ///< Elements; nullopt: Megatron's default. Only with overlap.
    std::optional<int64_t> ddp_num_buckets = {};  ///< Instead of the size.
  };

  /// The rates of the parameter groups in a step.
  struct Rates {
    double lr = 0;
    double weight_decay = 0;  ///< For the parameters that decay.
    /// The rate of the embedding and an output layer; nullopt: lr.
    std::optional<double> decoupled_lr = std::nullopt;
  };

  /// The result of a step.
  struct Outcome {
    bool skipped = false;              ///< A gradient was inf or NaN, so nothing changed.
    double grad_norm = 0;              ///< Before clipping; not set for skipped steps.
    std::optional<int64_t> num_zeros;  ///< With log_num_zeros_in_grad.
  };

  /// The optimizer state of one parameter in a checkpoint, fp32 in the parameter's shape.
  struct ParameterState {
    at::Tensor master;  ///< For 16-bit parameters; otherwise undefined.
    at::Tensor exp_avg, exp_avg_sq;
  };

  /// scaler: nullptr without loss scaling. The models must outlive the optimizer.
  /// ranks: the others that hold copies and parts of the model.
  static Result<std::unique_ptr<Optimizer>> create(const ModelChunks& model,
                                                   std::unique_ptr<schedule::GradScaler> scaler,
                                                   const Options& options,
                                                   const parallel::ParallelState& ranks = {});
  ~Optimizer();

  /// Whether inf and NaN in losses and gradients are errors instead of signals to a loss scaler.
  bool checks_for_nan() const;

  /// The factor of the loss before the backward pass.
  double loss_scale() const;

  /// How a step's gradients are handled.
  struct StepGradients {
    /// Whether the step has a single micro-batch and its gradients are not scaled, so that they can
    /// be read where autograd left them.
    bool only = false;
    double scale = 1;  ///< Factor applied before the sum over the data-parallel ranks.
  };

  /// Clears the gradients of the previous step; backward passes then add theirs.
  Status zero_grad(const StepGradients& step);

  /// Sets whether the next backward pass of a chunk of the model is its last one in this step.
  void expect_gradients(bool last);

  /// Called after the last micro-batch: sums gradients over all ranks.
  Status reduce_gradients();

  /// Multiplies the accumulated gradients.
  Status scale_gradients(double factor);

  /// Applies the accumulated gradients. If one is inf or NaN: with checks_for_nan() nothing changes
  /// and kOutOfRange names its parameter; otherwise, with a loss scale, the step is skipped and a
  /// dynamic scale is reduced; without a loss scale, the step is applied.
  Result<Outcome> step(const Rates& rates);

  /// Waits for parameters that are still being gathered. With overlap_param_gather it must be
  /// called before anything except the model's own passes reads or writes its tensors.
  Status finish_gathers();

  /// Returns them in the order of the model's parameters. For an ordinary optimizer these are its
  /// own tensors, which may be written between steps; for a distributed one, copies merged from all
  /// ranks' shares.
  Result<std::vector<ParameterState>> states();

  /// Called after the result of states() was changed: a distributed optimizer copies its share.
  Status take_states(const std::vector<ParameterState>& states);

  /// Called after weights were loaded into the model: sets the masters to them.
  Status copy_model_to_masters();
  /// Called after masters were restored: sets the model's weights to them.
  Status copy_masters_to_model();

  /// The L2 norm of all parameters, using the masters of bf16 ones: Megatron's calc_params_l2_norm
  /// since core_v0.11.
  Result<double> params_norm();

  /// Size of the tensors that this rank keeps, which model::rank_memory() predicts.
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
