#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/megatron/field_reader.h"
#include "libmeg/schedule/optimizer_param_scheduler.h"

namespace meg::schedule {

/// The flags that decide the schedule, with Megatron's names and defaults.
struct SchedulerFlags {
  std::optional<int64_t> train_iters;  ///< This or train_samples; 0 is as none.
  std::optional<int64_t> train_samples;
  int64_t global_batch_size = 1;  ///< Samples of an iteration, after any ramp-up.
  bool has_rampup_batch_size = false;

  std::optional<double> lr;  ///< Must be given.
  double min_lr = 0;
  std::optional<double> decoupled_lr, decoupled_min_lr;
  LrDecayStyle lr_decay_style = LrDecayStyle::kLinear;
  std::optional<int64_t> lr_decay_iters;    ///< None: train_iters.
  std::optional<int64_t> lr_decay_samples;  ///< None: train_samples.
  LrWsdDecayStyle lr_wsd_decay_style = LrWsdDecayStyle::kExponential;
  std::optional<int64_t> lr_wsd_decay_iters;
  std::optional<int64_t> lr_wsd_decay_samples;
  std::optional<double> lr_warmup_fraction;  ///< Fraction of the decay's iterations or samples.
  int64_t lr_warmup_iters = 0;
  int64_t lr_warmup_samples = 0;
  double lr_warmup_init = 0;

  double weight_decay = 0.01;
  std::optional<double> start_weight_decay;  ///< Given if and only if the style is not constant.
  std::optional<double> end_weight_decay;
  WeightDecayIncrStyle weight_decay_incr_style = WeightDecayIncrStyle::kConstant;

  bool use_checkpoint_opt_param_scheduler = false;
  bool override_opt_param_scheduler = false;

  /// Reads the schedule's fields from args; the caller sets has_rampup_batch_size and
  /// global_batch_size, which follow from the batches.
  void take_fields(megatron::FieldReader& args);
};

/// The schedule for these flags. kInvalidArgument if they contradict each other (iterations mixed
/// with samples, ...) or give no schedule.
/// Mirrors Megatron-LM megatron/training/training.py: get_optimizer_param_scheduler, and the checks
/// of these flags in arguments.py: validate_args.
Result<OptimizerParamScheduler> get_optimizer_param_scheduler(const SchedulerFlags& flags);

}  // namespace meg::schedule
