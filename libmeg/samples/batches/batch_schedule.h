#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::samples {

/// --rampup-batch-size START INCREMENT SAMPLES
struct BatchRampup {
  int64_t start = 0;
  int64_t increment = 0;
  int64_t samples = 0;  ///< Until the global batch size is reached.
};

/// One entry of --step-batch-size-schedule: the batch size from a number of consumed samples on.
struct BatchChange {
  int64_t samples = 0;
  int64_t batch_size = 0;
};

/// The global batch size of every training step.
/// Mirrors Megatron-LM megatron/core/num_microbatches_calculator.py.
class BatchSchedule {
 public:
  struct Options {
    int64_t global_batch_size = 0;  ///< Samples; 0: micro_batch_size x data_parallel_size.
    int64_t micro_batch_size = 1;
    int64_t data_parallel_size = 1;
    std::optional<BatchRampup> rampup = std::nullopt;
    /// In any order, the first at 0; none: all steps have the global batch size. It then is that of
    /// evaluations alone, as in Megatron. Not with rampup.
    std::vector<BatchChange> changes = {};
  };

  /// One sample per step.
  BatchSchedule() = default;

  /// kInvalidArgument where a number is out of range or where the batch of a step of a run from
  /// its first sample does not divide into micro-batches, with the numbers.
  static Result<BatchSchedule> create(const Options& options);

  int64_t global_batch_size() const { return global_batch_size_; }

  /// kInvalidArgument if a batch size cannot be divided into micro-batches of the ranks.
  /// micro_batch_size: nullopt: the schedule's.
  Status check_batch_size(std::string_view name, int64_t batch_size,
                          std::optional<int64_t> micro_batch_size = std::nullopt) const;

  /// kInvalidArgument unless the micro-batches of each rank fill groups, as the interleaved
  /// schedule requires: the remainder must be zero or at least the number of pipeline stages. A
  /// group must not be smaller than that number or larger than a batch.
  Status check_micro_batches_fill(int64_t stages, int64_t group) const;

  /// The batch size of the step that begins after consumed_samples.
  int64_t batch_size_after(int64_t consumed_samples) const;

  /// Samples consumed before step `step` (from 1); saturates at the largest int64.
  int64_t consumed_before(int64_t step) const;

  /// The step (from 1) that consumes sample number `sample` (from 0).
  int64_t step_of(int64_t sample) const;

  /// The number of steps for --train-samples, without an incomplete last batch, which
  /// --step-batch-size-schedule counts. 0 or less: none.
  /// whole_rampup: as up to core 0.7, which counts the whole ramp-up even if the samples end
  /// before. Mirrors megatron/training/training.py: update_train_iters.
  int64_t steps_for(int64_t train_samples, bool whole_rampup = false) const;

 private:
  /// Steps with one batch size, up to the next interval.
  struct Interval {
    int64_t first_step = 1;
    int64_t first_sample = 0;
    int64_t batch_size = 0;
  };

  Status walk();
  Status add_interval(Interval interval);
  int64_t samples_until_larger(int64_t consumed) const;
  std::vector<BatchChange>::const_iterator change_after(int64_t consumed) const;
  std::optional<int64_t> next_change(int64_t consumed) const;

  int64_t global_batch_size_ = 1;
  int64_t micro_batch_size_ = 1;
  int64_t data_parallel_size_ = 1;
  std::optional<BatchRampup> rampup_;
  double samples_per_increment_ = 0;
  std::vector<BatchChange> changes_;  ///< By samples.
  /// The intervals of a run from its first sample; at least one.
  std::vector<Interval> intervals_ = {{.first_step = 1, .first_sample = 0, .batch_size = 1}};
};

}  // namespace meg::samples
