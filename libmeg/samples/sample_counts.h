#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/samples/batches/batch_schedule.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// How long a run trains and how often it evaluates: flags of Megatron-LM's trainer.
struct RunLength {
  std::optional<int64_t> train_iters = std::nullopt;    ///< One of these two.
  std::optional<int64_t> train_samples = std::nullopt;  ///< Taken where it is not 0.
  int64_t eval_iters = 100;                             ///< Steps of one evaluation.
  /// Training steps between two evaluations, at least 1. Where they are not counted (whole
  /// validation, no training) also 0: none while training.
  int64_t eval_interval = 1000;
  std::optional<int64_t> start_eval_at_iter = std::nullopt;  ///< No evaluation before this step.
  std::optional<int64_t> eval_global_batch_size = std::nullopt;  ///< nullopt: that of training.
  std::optional<int64_t> eval_micro_batch_size = std::nullopt;   ///< nullopt: that of training.
  bool skip_train = false;
  bool full_validation = false;  ///< Validate on one whole epoch.
};

/// The number of samples that a run requests from its datasets.
struct SampleCounts {
  int64_t train_iters = 0;                   ///< Steps.
  PerSplit<std::optional<int64_t>> samples;  ///< nullopt: one epoch.
};

/// kInvalidArgument: no length or both, a number out of range or a product beyond int64, or a flag
/// that the revision lacks and that changes the counts.
/// Mirrors Megatron-LM megatron/training/training.py: get_train_valid_test_num_samples and
/// update_train_iters.
Result<SampleCounts> count_samples(const RunLength& length, const BatchSchedule& batches,
                                   const megatron::MegatronVersion& version);

}  // namespace meg::samples
