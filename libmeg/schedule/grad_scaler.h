#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "libmeg/base/result.h"

namespace meg::schedule {

/// The factor of the loss that keeps small fp16 gradients from vanishing. Arithmetic is fp32, as
/// Megatron keeps the scale in an fp32 tensor.
/// Mirrors Megatron-LM megatron/core/optimizer/grad_scaler.py.
class GradScaler {
 public:
  /// A checkpoint's `optimizer.grad_scaler`: {scale, growth_tracker, hysteresis_tracker}.
  struct State {
    float scale = 1;
    int64_t growth_tracker = 0;      ///< Steps without inf or NaN since the last one or growth.
    int64_t hysteresis_tracker = 0;  ///< Falls below 0 while the scale keeps falling.

    bool operator==(const State& other) const = default;
  };

  virtual ~GradScaler() = default;

  float scale() const { return scale_; }

  /// The factor that unscales gradients; 0 if the scale is infinite.
  float inv_scale() const;

  /// Called after every step. found_inf: whether a gradient was inf or NaN, so the step was
  /// skipped.
  virtual void update(bool found_inf) = 0;

  /// nullopt for a constant scale, which checkpoints hold as an empty dict.
  virtual std::optional<State> state_dict() const = 0;

  /// kCorruption if no scaler can have this state.
  virtual Status load_state_dict(const State& state) = 0;

 protected:
  explicit GradScaler(float scale) : scale_(scale) {}

  float scale_;
};

/// --loss-scale: never changes. Checkpoints hold nothing of it.
class ConstantGradScaler final : public GradScaler {
 public:
  /// kInvalidArgument where scale <= 0.
  static Result<std::unique_ptr<GradScaler>> create(double scale);

  void update(bool) override {}

  std::optional<State> state_dict() const override { return std::nullopt; }

  Status load_state_dict(const State&) override { return Status(); }

 private:
  using GradScaler::GradScaler;
};

/// Doubles the scale after growth_interval steps in a row without inf or NaN; after `hysteresis`
/// steps with one since the last growth, halves it at each further one.
class DynamicGradScaler final : public GradScaler {
 public:
  struct Options {
    double initial_scale = 4294967296.0;  ///< --initial-loss-scale
    double min_scale = 1;                 ///< --min-loss-scale
    double growth_factor = 2;
    double backoff_factor = 0.5;
    /// --loss-scale-window, a float in Megatron: with a fraction the scale never grows.
    double growth_interval = 1000;
    int64_t hysteresis = 2;  ///< --hysteresis
  };

  /// kInvalidArgument for what Megatron refuses, naming the flag.
  static Result<std::unique_ptr<GradScaler>> create(const Options& options);

  void update(bool found_inf) override;
  std::optional<State> state_dict() const override;
  Status load_state_dict(const State& state) override;

 private:
  explicit DynamicGradScaler(const Options& options);

  float min_scale_;
  float growth_factor_;
  float backoff_factor_;
  double growth_interval_;
  int64_t hysteresis_;
  int64_t growth_tracker_ = 0;
  int64_t hysteresis_tracker_;
};

/// The scaler of a run: constant where --loss-scale is given and not 0, else dynamic with --fp16,
/// else none (nullptr): nothing is scaled, and gradients are not checked for inf and NaN.
/// Runs in fp32 have none whatever the flags say.
/// Mirrors megatron/core/optimizer/__init__.py: get_megatron_optimizer.
Result<std::unique_ptr<GradScaler>> get_grad_scaler(bool fp16, bool bf16,
                                                    std::optional<double> loss_scale,
                                                    const DynamicGradScaler::Options& options);

}  // namespace meg::schedule
