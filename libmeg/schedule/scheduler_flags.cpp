#include "libmeg/schedule/scheduler_flags.h"

#include <string_view>

// The scheduler counts samples. Flags in iterations are multiplied by the global batch size, which
// is why they do not go together with --rampup-batch-size, and why a run is described either by
// iterations or by samples, never by both.

namespace meg::schedule {
namespace {

using Options = OptimizerParamScheduler::Options;

/// Asks as Megatron does (`if args.train_iters`): 0 counts as not given.
bool is_set(const std::optional<int64_t>& count) { return count.value_or(0) != 0; }

Status refuse(std::string_view field, std::string_view with) {
  return make_error(StatusCode::kInvalidArgument, "{}: cannot be combined with {}", field, with);
}

Status check_negative(std::string_view field, int64_t value) {
  if (value >= 0) return Status();
  return make_error(StatusCode::kInvalidArgument, "{}: expected 0 or more, found {}", field, value);
}

Status check_counts(const SchedulerFlags& flags) {
  MEG_RETURN_IF_ERROR(check_negative("`train_iters`", flags.train_iters.value_or(0)));
  MEG_RETURN_IF_ERROR(check_negative("`train_samples`", flags.train_samples.value_or(0)));
  MEG_RETURN_IF_ERROR(check_negative("`lr_warmup_iters`", flags.lr_warmup_iters));
  MEG_RETURN_IF_ERROR(check_negative("`lr_warmup_samples`", flags.lr_warmup_samples));
  if (flags.global_batch_size < 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "`global_batch_size`: expected 1 or more, found {}", flags.global_batch_size);
  }
  if (flags.lr_warmup_fraction && !(*flags.lr_warmup_fraction >= 0)) {
    return make_error(StatusCode::kInvalidArgument,
                      "`lr_warmup_fraction`: expected 0 or more, found {}",
                      *flags.lr_warmup_fraction);
  }
  return Status();
}

Status check_iterations(const SchedulerFlags& flags) {
  constexpr std::string_view kWith = "`train_iters`";
  if (flags.train_samples) return refuse("`train_samples`", kWith);
  if (flags.lr_decay_samples) return refuse("`lr_decay_samples`", kWith);
  if (flags.lr_warmup_samples != 0) return refuse("`lr_warmup_samples`", kWith);
  if (flags.lr_wsd_decay_samples) return refuse("`lr_wsd_decay_samples`", kWith);
  if (flags.has_rampup_batch_size) return refuse("`rampup_batch_size`", kWith);
  if (flags.lr_warmup_fraction && flags.lr_warmup_iters != 0) {
    return refuse("`lr_warmup_fraction`", "`lr_warmup_iters`");
  }
  return Status();
}

Status check_samples(const SchedulerFlags& flags) {
  constexpr std::string_view kWith = "`train_samples`";
  if (flags.train_iters) return refuse("`train_iters`", kWith);
  if (flags.lr_decay_iters) return refuse("`lr_decay_iters`", kWith);
  if (flags.lr_warmup_iters != 0) return refuse("`lr_warmup_iters`", kWith);
  if (flags.lr_wsd_decay_iters) return refuse("`lr_wsd_decay_iters`", kWith);
  if (flags.lr_warmup_fraction && flags.lr_warmup_samples != 0) {
    return refuse("`lr_warmup_fraction`", "`lr_warmup_samples`");
  }
  return Status();
}

Result<int64_t> in_samples(std::string_view field, int64_t iterations, int64_t global_batch_size) {
  int64_t samples = 0;
  if (__builtin_mul_overflow(iterations, global_batch_size, &samples)) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected at most 2^63 samples, found {} iterations of {}", field,
                      iterations, global_batch_size);
  }
  return samples;
}

Status fill_iterations(const SchedulerFlags& flags, int64_t* decay, Options& options) {
  const int64_t batch = flags.global_batch_size;
  const int64_t train_iters = *flags.train_iters;
  MEG_ASSIGN_OR_RETURN(
      *decay, in_samples("`lr_decay_iters`", flags.lr_decay_iters.value_or(train_iters), batch));
  MEG_ASSIGN_OR_RETURN(options.wd_incr_steps, in_samples("`train_iters`", train_iters, batch));
  MEG_ASSIGN_OR_RETURN(options.lr_warmup_steps,
                       in_samples("`lr_warmup_iters`", flags.lr_warmup_iters, batch));
  if (flags.lr_wsd_decay_iters) {
    MEG_ASSIGN_OR_RETURN(options.wsd_decay_steps,
                         in_samples("`lr_wsd_decay_iters`", *flags.lr_wsd_decay_iters, batch));
  }
  return Status();
}

Status fill_weight_decay(const SchedulerFlags& flags, Options& options) {
  options.wd_incr_style = flags.weight_decay_incr_style;
  const bool constant = flags.weight_decay_incr_style == WeightDecayIncrStyle::kConstant;
  const auto check = [&](std::string_view field, const std::optional<double>& value) {
    if (value.has_value() != constant) return Status();
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected {} `weight_decay_incr_style` {}, found {}", field,
                      constant ? "none with" : "a number with",
                      style_text(flags.weight_decay_incr_style), constant ? "one" : "none");
  };
  MEG_RETURN_IF_ERROR(check("`start_weight_decay`", flags.start_weight_decay));
  MEG_RETURN_IF_ERROR(check("`end_weight_decay`", flags.end_weight_decay));
  // A constant decay begins and ends with --weight-decay, so the scheduler needs no case for it.
  options.start_wd = flags.start_weight_decay.value_or(flags.weight_decay);
  options.end_wd = flags.end_weight_decay.value_or(flags.weight_decay);
  return Status();
}

}  // namespace

void SchedulerFlags::take_fields(megatron::FieldReader& args) {
  args.take("train_iters", train_iters);
  args.take("train_samples", train_samples);
  args.take("lr", lr);
  args.take("min_lr", min_lr);
  args.take("decoupled_lr", decoupled_lr);
  args.take("decoupled_min_lr", decoupled_min_lr);
  args.parse("lr_decay_style", lr_decay_style, parse_lr_decay_style);
  args.take("lr_decay_iters", lr_decay_iters);
  args.take("lr_decay_samples", lr_decay_samples);
  args.parse("lr_wsd_decay_style", lr_wsd_decay_style, parse_lr_wsd_decay_style);
  args.take("lr_wsd_decay_iters", lr_wsd_decay_iters);
  args.take("lr_wsd_decay_samples", lr_wsd_decay_samples);
  args.take("lr_warmup_fraction", lr_warmup_fraction);
  args.take("lr_warmup_iters", lr_warmup_iters);
  args.take("lr_warmup_samples", lr_warmup_samples);
  args.take("lr_warmup_init", lr_warmup_init);
  args.take("weight_decay", weight_decay);
  args.take("start_weight_decay", start_weight_decay);
  args.take("end_weight_decay", end_weight_decay);
  args.parse("weight_decay_incr_style", weight_decay_incr_style, parse_weight_decay_incr_style);
  args.take("use_checkpoint_opt_param_scheduler", use_checkpoint_opt_param_scheduler);
  args.take("override_opt_param_scheduler", override_opt_param_scheduler);
}

Result<OptimizerParamScheduler> get_optimizer_param_scheduler(const SchedulerFlags& flags) {
  if (!flags.lr) {
    return make_error(StatusCode::kInvalidArgument, "`lr`: expected a number, found none");
  }
  MEG_RETURN_IF_ERROR(check_counts(flags));
  Options options{.init_lr = flags.lr_warmup_init,
                  .max_lr = *flags.lr,
                  .min_lr = flags.min_lr,
                  .decoupled_lr = flags.decoupled_lr,
                  .decoupled_min_lr = flags.decoupled_min_lr,
                  .lr_decay_style = flags.lr_decay_style,
                  .lr_wsd_decay_style = flags.lr_wsd_decay_style,
                  .use_checkpoint_opt_param_scheduler = flags.use_checkpoint_opt_param_scheduler,
                  .override_opt_param_scheduler = flags.override_opt_param_scheduler};
  int64_t decay = 0;
  if (is_set(flags.train_iters)) {
    MEG_RETURN_IF_ERROR(check_iterations(flags));
    MEG_RETURN_IF_ERROR(fill_iterations(flags, &decay, options));
  } else if (is_set(flags.train_samples)) {
    MEG_RETURN_IF_ERROR(check_samples(flags));
    decay = flags.lr_decay_samples.value_or(*flags.train_samples);
    options.wd_incr_steps = *flags.train_samples;
    options.lr_warmup_steps = flags.lr_warmup_samples;
    options.wsd_decay_steps = flags.lr_wsd_decay_samples;
  } else if (flags.train_iters || flags.train_samples) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected 1 or more, found 0",
                      flags.train_iters ? "`train_iters`" : "`train_samples`");
  } else {
    return make_error(StatusCode::kInvalidArgument,
                      "expected `train_iters` or `train_samples`, found neither");
  }
  options.lr_decay_steps = decay;
  if (flags.lr_warmup_fraction) {
    // A float, also where it is a whole number: checkpoints hold 25600.0, and Megatron prints it
    // so.
    options.lr_warmup_steps = *flags.lr_warmup_fraction * static_cast<double>(decay);
  }
  MEG_RETURN_IF_ERROR(fill_weight_decay(flags, options));
  return OptimizerParamScheduler::create(options);
}

}  // namespace meg::schedule
