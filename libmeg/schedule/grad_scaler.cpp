#include "libmeg/schedule/grad_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "libmeg/schedule/internal/value_error.h"

namespace meg::schedule {

float GradScaler::inv_scale() const {
  // Megatron takes the reciprocal in float64 and rounds it once.
  return static_cast<float>(1.0 / static_cast<double>(scale_));
}

Result<std::unique_ptr<GradScaler>> ConstantGradScaler::create(double scale) {
  if (!(scale > 0)) return value_error("`loss_scale`", "more than 0", scale);
  return std::unique_ptr<GradScaler>(new ConstantGradScaler(static_cast<float>(scale)));
}

Result<std::unique_ptr<GradScaler>> DynamicGradScaler::create(const Options& options) {
  if (!(options.initial_scale > 0)) {
    return value_error("`initial_loss_scale`", "more than 0", options.initial_scale);
  }
  if (!(options.min_scale > 0 && options.min_scale <= options.initial_scale)) {
    return value_error(
        "`min_loss_scale`",
        fmt::format("more than 0 and at most `initial_loss_scale` ({})", options.initial_scale),
        options.min_scale);
  }
  if (!(options.growth_factor > 1)) {
    return value_error("growth factor of the loss scale", "more than 1", options.growth_factor);
  }
  if (!(options.backoff_factor > 0 && options.backoff_factor < 1)) {
    return value_error("backoff factor of the loss scale", "more than 0 and less than 1",
                       options.backoff_factor);
  }
  if (!(options.growth_interval > 0)) {
    return value_error("`loss_scale_window`", "more than 0", options.growth_interval);
  }
  if (options.hysteresis <= 0) {
    return value_error("`hysteresis`", "more than 0", static_cast<double>(options.hysteresis));
  }
  return std::unique_ptr<GradScaler>(new DynamicGradScaler(options));
}

DynamicGradScaler::DynamicGradScaler(const Options& options)
    : GradScaler(static_cast<float>(options.initial_scale)),
      min_scale_(static_cast<float>(options.min_scale)),
      growth_factor_(static_cast<float>(options.growth_factor)),
      backoff_factor_(static_cast<float>(options.backoff_factor)),
      growth_interval_(options.growth_interval),
      hysteresis_(options.hysteresis),
      hysteresis_tracker_(options.hysteresis) {}

void DynamicGradScaler::update(bool found_inf) {
  if (found_inf) {
    growth_tracker_ = 0;
    // A good step never sets it back, only growth does: hysteresis counts bad steps since the scale
    // last grew, not in a row.
    --hysteresis_tracker_;
    if (hysteresis_tracker_ <= 0) scale_ = std::max(scale_ * backoff_factor_, min_scale_);
    return;
  }
  ++growth_tracker_;
  // Equal, not at least: a window with a fraction is never met, as in Megatron.
  if (static_cast<double>(growth_tracker_) != growth_interval_) return;
  growth_tracker_ = 0;
  hysteresis_tracker_ = hysteresis_;
  scale_ *= growth_factor_;
}

std::optional<GradScaler::State> DynamicGradScaler::state_dict() const {
  return State{.scale = scale_,
               .growth_tracker = growth_tracker_,
               .hysteresis_tracker = hysteresis_tracker_};
}

Status DynamicGradScaler::load_state_dict(const State& state) {
  // The hysteresis tracker may be negative: it falls for as long as the scale keeps falling.
  if (!(state.scale > 0) || state.growth_tracker < 0) {
    return make_error(StatusCode::kCorruption,
                      "grad_scaler: expected a scale above 0 and a growth_tracker of 0 or more, "
                      "found {} and {}",
                      state.scale, state.growth_tracker);
  }
  scale_ = state.scale;
  growth_tracker_ = state.growth_tracker;
  hysteresis_tracker_ = state.hysteresis_tracker;
  return Status();
}

Result<std::unique_ptr<GradScaler>> get_grad_scaler(bool fp16, bool bf16,
                                                    std::optional<double> loss_scale,
                                                    const DynamicGradScaler::Options& options) {
  // --loss-scale 0 means a dynamic scale; bf16 has fp32's range and gets one only where it is asked
  // for.
  if ((fp16 || bf16) && loss_scale.value_or(0) != 0) return ConstantGradScaler::create(*loss_scale);
  if (fp16) return DynamicGradScaler::create(options);
  return std::unique_ptr<GradScaler>();
}

}  // namespace meg::schedule
