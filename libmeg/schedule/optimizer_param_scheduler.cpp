#include "libmeg/schedule/optimizer_param_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "libmeg/schedule/internal/scheduler_state.h"
#include "libmeg/schedule/internal/value_error.h"

// Rates must equal Megatron's to the last bit, so that a run may continue with either program.
// Every formula therefore stands as Python computes it, in float64, with the same operations in the
// same order: what is equal in algebra is not equal in the last bit.

namespace meg::schedule {
namespace {

double real(const SampleCount& count) {
  return std::visit([](auto value) { return static_cast<double>(value); }, count);
}

/// Falls from 1 at ratio 0 to 0 at ratio 1, computed operation by operation as in Python.
double half_cosine(double ratio) { return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0); }

double wsd_coefficient(LrWsdDecayStyle style, double ratio) {
  switch (style) {
    case LrWsdDecayStyle::kLinear:
      return 1.0 - ratio;
    case LrWsdDecayStyle::kCosine:
      return half_cosine(ratio);
    case LrWsdDecayStyle::kExponential:
      return 2.0 * std::pow(0.5, ratio) - 1.0;
    case LrWsdDecayStyle::kMinusSqrt:
      break;
  }
  return 1.0 - std::sqrt(ratio);
}

/// Counts above 2^53 are not exact in the schedule's arithmetic.
Status check_count(std::string_view what, const SampleCount& count, double least) {
  constexpr double kExact = 9007199254740992.0;
  const double value = real(count);
  if (value >= least && value <= kExact) return Status();
  return value_error(what, fmt::format("{} to 2^53 samples", least), value);
}

Status check_learning_rates(const OptimizerParamScheduler::Options& options) {
  if (!std::isfinite(options.max_lr)) return value_error("`lr`", "a finite number", options.max_lr);
  if (!(options.min_lr >= 0)) return value_error("`min_lr`", "0 or more", options.min_lr);
  if (!(options.max_lr >= options.min_lr)) {
    return value_error("`min_lr`", fmt::format("at most `lr` ({})", options.max_lr),
                       options.min_lr);
  }
  if (!(options.init_lr <= options.max_lr) || !std::isfinite(options.init_lr)) {
    return value_error("`lr_warmup_init`", fmt::format("at most `lr` ({})", options.max_lr),
                       options.init_lr);
  }
  MEG_RETURN_IF_ERROR(check_count("learning rate decay", options.lr_decay_steps, 1));
  MEG_RETURN_IF_ERROR(check_count("learning rate warmup", options.lr_warmup_steps, 0));
  if (real(options.lr_warmup_steps) >= real(options.lr_decay_steps)) {
    return value_error(
        "learning rate warmup",
        fmt::format("less than the {} samples of its decay", real(options.lr_decay_steps)),
        real(options.lr_warmup_steps));
  }
  if (options.lr_decay_style == LrDecayStyle::kWsd && !options.wsd_decay_steps) {
    return make_error(StatusCode::kInvalidArgument,
                      "`lr_decay_style` WSD: expected `lr_wsd_decay_iters` or "
                      "`lr_wsd_decay_samples`, found neither");
  }
  return check_count("WSD decay", options.wsd_decay_steps.value_or(0), 0);
}

Status check_decoupled_lr(const OptimizerParamScheduler::Options& options) {
  if (options.decoupled_min_lr.has_value() && !options.decoupled_lr.has_value()) {
    return make_error(StatusCode::kInvalidArgument, "`decoupled_min_lr`: requires `decoupled_lr`");
  }
  const double rate = options.decoupled_lr.value_or(0);
  const double least = options.decoupled_min_lr.value_or(0);
  if (!std::isfinite(rate)) return value_error("`decoupled_lr`", "a finite number", rate);
  if (!(least >= 0 && std::isfinite(least))) {
    return value_error("`decoupled_min_lr`", "0 or more", least);
  }
  return Status();
}

Status check_weight_decay(const OptimizerParamScheduler::Options& options) {
  const bool constant = options.wd_incr_style == WeightDecayIncrStyle::kConstant;
  if (!(options.start_wd >= 0)) {
    return value_error("start weight decay", "0 or more", options.start_wd);
  }
  if (!(options.end_wd >= options.start_wd) || !std::isfinite(options.end_wd)) {
    return value_error("end weight decay", fmt::format("{} (its start) or more", options.start_wd),
                       options.end_wd);
  }
  if (constant && options.start_wd != options.end_wd) {
    return value_error("end weight decay", fmt::format("{} (constant)", options.start_wd),
                       options.end_wd);
  }
  return check_count("weight decay increment", options.wd_incr_steps, constant ? 0 : 1);
}

Status check(const OptimizerParamScheduler::Options& options) {
  if (options.override_opt_param_scheduler && options.use_checkpoint_opt_param_scheduler) {
    return make_error(StatusCode::kInvalidArgument,
                      "`override_opt_param_scheduler`: cannot be combined with "
                      "`use_checkpoint_opt_param_scheduler`");
  }
  MEG_RETURN_IF_ERROR(check_learning_rates(options));
  MEG_RETURN_IF_ERROR(check_decoupled_lr(options));
  return check_weight_decay(options);
}

}  // namespace

OptimizerParamScheduler::OptimizerParamScheduler(const Options& options) : options_(options) {
  // The first update uses what warmup begins with.
  step(0);
}

Result<OptimizerParamScheduler> OptimizerParamScheduler::create(const Options& options) {
  MEG_RETURN_IF_ERROR(check(options));
  return OptimizerParamScheduler(options);
}

void OptimizerParamScheduler::step(int64_t increment) {
  num_steps_ += increment;
  lr_ = compute_lr(options_.max_lr, options_.min_lr);
  if (options_.decoupled_lr.has_value()) {
    decoupled_lr_ =
        compute_lr(*options_.decoupled_lr, options_.decoupled_min_lr.value_or(options_.min_lr));
  }
  weight_decay_ = compute_weight_decay();
}

double OptimizerParamScheduler::compute_lr(double max_lr, double min_lr) const {
  const double steps = static_cast<double>(num_steps_);
  const double warmup = real(options_.lr_warmup_steps);
  const double decay = real(options_.lr_decay_steps);
  if (warmup > 0 && steps <= warmup) {
    return options_.init_lr + (max_lr - options_.init_lr) * steps / warmup;
  }
  // This comes before the look at the end: a constant rate does not fall to min_lr after it.
  if (options_.lr_decay_style == LrDecayStyle::kConstant) return max_lr;
  if (steps > decay) return min_lr;

  const double ratio = (steps - warmup) / (decay - warmup);
  double coefficient = 1.0;
  switch (options_.lr_decay_style) {
    case LrDecayStyle::kConstant:
      break;
    case LrDecayStyle::kInverseSquareRoot:
      // Do without std::sqrt: Megatron writes `** 0.5`, which is a pow().
      return std::max(min_lr, max_lr * std::pow(std::max(warmup, 1.0), 0.5) /
                                  std::pow(std::max(steps, 1.0), 0.5));
    case LrDecayStyle::kLinear:
      coefficient = 1.0 - ratio;
      break;
    case LrDecayStyle::kCosine:
      coefficient = half_cosine(ratio);
      break;
    case LrDecayStyle::kWsd: {
      const double wsd_decay = static_cast<double>(*options_.wsd_decay_steps);
      // WSD stays at max_lr until its own decay begins, wsd_decay samples before the end.
      const double into_decay = steps - (decay - wsd_decay);
      if (into_decay > 0) {
        coefficient = wsd_coefficient(options_.lr_wsd_decay_style, into_decay / wsd_decay);
      }
      break;
    }
  }
  return min_lr + coefficient * (max_lr - min_lr);
}

double OptimizerParamScheduler::compute_weight_decay() const {
  const double steps = static_cast<double>(num_steps_);
  const double incr_steps = real(options_.wd_incr_steps);
  if (steps > incr_steps || options_.wd_incr_style == WeightDecayIncrStyle::kConstant) {
    return options_.end_wd;
  }
  const double ratio = steps / incr_steps;
  const double coefficient =
      options_.wd_incr_style == WeightDecayIncrStyle::kLinear ? ratio : half_cosine(1 - ratio);
  return options_.start_wd + coefficient * (options_.end_wd - options_.start_wd);
}

std::vector<std::pair<std::string, megatron::FieldValue>> OptimizerParamScheduler::state_dict()
    const {
  return scheduler_state(options_, num_steps_);
}

Result<std::vector<std::string>> OptimizerParamScheduler::load_state_dict(
    const megatron::FieldLookup& state) {
  MEG_ASSIGN_OR_RETURN(LoadedSchedulerState loaded, load_scheduler_state(state, options_));
  // Both halves may be right by themselves and not together, as the flags' minimum and the
  // checkpoint's maximum.
  if (const Status status = check(loaded.options); !status.ok()) {
    return Status(StatusCode::kCorruption, status.message()).with_prefix("opt_param_scheduler");
  }
  options_ = loaded.options;
  num_steps_ = loaded.num_steps;
  step(0);
  return std::move(loaded.lines);
}

}  // namespace meg::schedule
