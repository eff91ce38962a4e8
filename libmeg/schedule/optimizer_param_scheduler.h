#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/schedule/schedule_styles.h"

namespace meg::schedule {

/// A count of samples as Python keeps it: --lr-warmup-fraction gives a float (25600.0), the other
/// flags an integer. Checkpoints hold it so, and Megatron prints it so.
using SampleCount = std::variant<int64_t, double>;

/// Anneals learning rate and weight decay. One of its steps is a sample, not an iteration.
///
/// The revisions of Megatron differ only in what they can be asked for (init_lr, WSD, minus_sqrt
/// came later), never in numbers, so this does what the newest does.
/// Mirrors Megatron-LM megatron/core/optimizer_param_scheduler.py (6ef5bdc:
/// megatron/optimizer_param_scheduler.py).
class OptimizerParamScheduler {
 public:
  struct Options {
    double init_lr = 0;  ///< Where warmup begins.
    double max_lr = 0;
    double min_lr = 0;
    /// A rate of their own for the rows of the embedding and of an output layer, with the same
    /// warmup and decay; its end is min_lr where none is given.
    std::optional<double> decoupled_lr = std::nullopt, decoupled_min_lr = std::nullopt;
    SampleCount lr_warmup_steps = int64_t{0};
    SampleCount lr_decay_steps = int64_t{0};
    LrDecayStyle lr_decay_style = LrDecayStyle::kLinear;
    std::optional<int64_t> wsd_decay_steps =
        std::nullopt;  ///< Needed for WSD: samples of its decay.
    LrWsdDecayStyle lr_wsd_decay_style = LrWsdDecayStyle::kExponential;
    double start_wd = 0;
    double end_wd = 0;
    SampleCount wd_incr_steps = int64_t{0};
    WeightDecayIncrStyle wd_incr_style = WeightDecayIncrStyle::kConstant;
    /// load_state_dict() uses the checkpoint's values if they differ.
    bool use_checkpoint_opt_param_scheduler = false;
    /// load_state_dict() keeps these values if they differ.
    bool override_opt_param_scheduler = false;
  };

  /// kInvalidArgument for what Megatron refuses (a warmup that does not end before the decay does,
  /// min_lr above max_lr, ...), naming the flag.
  static Result<OptimizerParamScheduler> create(const Options& options);

  const Options& options() const { return options_; }

  /// Samples of the steps taken.
  int64_t num_steps() const { return num_steps_; }

  /// What the next update uses, before a parameter group's lr_mult and wd_mult.
  double lr() const { return lr_; }

  /// The decoupled rate; nullopt without one.
  std::optional<double> decoupled_lr() const { return decoupled_lr_; }

  double weight_decay() const { return weight_decay_; }

  /// Called after an update that was not skipped. increment: its samples, >= 0.
  void step(int64_t increment);

  /// Sets what the next update uses, until the next step: the rates of an optimizer that was loaded
  /// without its schedule.
  void set_next_rates(double lr, double weight_decay) {
    lr_ = lr;
    weight_decay_ = weight_decay;
  }

  /// The fields of a checkpoint's `opt_param_scheduler`, in Megatron's order.
  std::vector<std::pair<std::string, megatron::FieldValue>> state_dict() const;

  /// Takes num_steps and, unless override_opt_param_scheduler, the schedule from a checkpoint's
  /// `opt_param_scheduler` (older: `lr_scheduler`); names of older revisions are known. Returns
  /// Megatron's lines, such as " > using checkpoint value 25600.0 for warmup iterations".
  /// kInvalidArgument if a value differs and neither flag decides which one to use, kCorruption if
  /// fields are missing or do not form a schedule; then nothing has changed.
  ///
  /// Weight decay follows at once. Megatron lets one update run with the flags' weight decay.
  Result<std::vector<std::string>> load_state_dict(const megatron::FieldLookup& state);

 private:
  explicit OptimizerParamScheduler(const Options& options);

  double compute_lr(double max_lr, double min_lr) const;
  double compute_weight_decay() const;

  Options options_;
  int64_t num_steps_ = 0;
  double lr_ = 0;
  std::optional<double> decoupled_lr_;
  double weight_decay_ = 0;
};

}  // namespace meg::schedule
