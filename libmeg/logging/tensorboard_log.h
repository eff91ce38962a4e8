#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "libmeg/logging/log_lines.h"
#include "libmeg/logging/tensorboard_writer.h"
#include "libmeg/logging/training_log.h"

namespace meg::logging {

/// The curves that a run writes, by Megatron's flags.
struct TensorboardCurves {
  int64_t log_interval = 1;     ///< --tensorboard-log-interval: steps between points.
  bool loss_scale = true;       ///< Off with --no-log-loss-scale-to-tensorboard.
  bool timers = false;          ///< --log-timers-to-tensorboard
  bool validation_ppl = false;  ///< --log-validation-ppl-to-tensorboard
  bool world_size = false;      ///< --log-world-size-to-tensorboard
};

/// The points of one step: learning-rate, batch-size, each loss (of this step, not of the
/// interval), loss-scale, grad-norm, num-zeros, params-norm; each also as "... vs samples". Nothing
/// at steps that are no multiple of log_interval.
/// Mirrors Megatron-LM megatron/training/training.py: training_log.
Status write_iteration(TensorboardWriter& writer, const TensorboardCurves& curves,
                       const IterationFigures& figures, const Losses& losses, int64_t world_size);

/// Writes, with curves.timers, when a line is printed: iteration-time (seconds), throughput
/// (TFLOP/s per GPU, with --log-throughput), and each timer's longest over the ranks as
/// "NAME-time", seconds shared by normalizer steps.
Status write_times(TensorboardWriter& writer, const TensorboardCurves& curves, int64_t iteration,
                   double seconds_per_iteration, std::optional<double> tflops,
                   std::span<const TimerTimes> timers, double normalizer);

/// "lm loss validation", "lm loss validation vs samples"; with curves.validation_ppl also "lm loss
/// validation ppl" and "... ppl vs samples". Mirrors evaluate_and_print_results.
Status write_validation(TensorboardWriter& writer, const TensorboardCurves& curves,
                        int64_t iteration, int64_t consumed_train_samples, const Losses& losses);

}  // namespace meg::logging
