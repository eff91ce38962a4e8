#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/core/result.h"

namespace meg {

/// --rampup-batch-size START INCREMENT SAMPLES
struct BatchRampup {
  int64_t start = 0;
  int64_t increment = 0;
  int64_t samples = 0;  ///< Until the global batch size is reached.
};

/// The global batch size of every training step.
/// Mirrors Megatron-LM megatron/core/num_microbatches_calculator.py.
class BatchSchedule {
 public:
  struct Options {
    int64_t global_batch_size = 0;  ///< Samples; 0: micro_batch_size x data_parallel_size.
    int64_t micro_batch_size = 1;
    int64_t data_parallel_size = 1;
    std::optional<BatchRampup> rampup;
  };

  /// kInvalidArgument where batches do not divide, with the numbers.
  static Result<BatchSchedule> create(const Options& options);

  int64_t global_batch_size() const { return global_batch_size_; }

  /// The batch size of the step that begins after consumed_samples.
  int64_t batch_size_after(int64_t consumed_samples) const;

  /// Samples consumed before step `step`, the first is 1.
  int64_t consumed_before(int64_t step) const;

  /// The step that consumes sample number `sample` (from 0), the first is 1.
  int64_t step_of(int64_t sample) const;

  /// Steps that --train-samples gives. Mirrors megatron/training/training.py: update_train_iters.
  int64_t steps_for(int64_t train_samples) const;

 private:
  int64_t global_batch_size_ = 0;
  int64_t micro_batch_times_ranks_ = 1;
  std::optional<BatchRampup> rampup_;
};

}  // namespace meg
