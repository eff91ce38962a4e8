#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/megatron/megatron_version.h"

namespace meg::logging {

/// Means over a step's or an evaluation's micro-batches by name, in order, such as {"lm loss",
/// 10.7F}.
using Losses = std::vector<std::pair<std::string, float>>;

/// The figures of a step in a log line, apart from its losses.
struct IterationFigures {
  int64_t iteration = 0;  ///< The first is 1.
  int64_t train_iters = 0;
  int64_t consumed_train_samples = 0;  ///< After the step.
  int64_t skipped_train_samples = 0;   ///< Included in these; printed if there are any.
  double learning_rate = 0;            ///< The next step's: the scheduler has moved on already.
  int64_t global_batch_size = 0;
  double loss_scale = 1;  ///< After the step; 1 without a scaler.
  /// Before clipping; nullopt if the step was skipped.
  std::optional<double> grad_norm = std::nullopt;
  std::optional<double> num_zeros_in_grad = std::nullopt;
  std::optional<double> params_norm = std::nullopt;
};

/// Gathers steps between two lines and makes Megatron's line of them. Knows no clock and prints
/// nothing. Mirrors Megatron-LM megatron/training/training.py: training_log.
class TrainingLog {
 public:
  /// version: decides between
  ///     " iteration       10/ ... | learning rate: 1.000E-04 | ..."
  ///     " [2025-04-13 23:41:20] iteration       10/ ... | learning rate: 1.000000E-04 | ..."
  /// the second since core_v0.6. Microseconds, which it has since core_v0.16, are left out.
  explicit TrainingLog(const megatron::MegatronVersion& version)
      : dated_(version.dated_log_lines) {}

  /// Called after every step. Losses of skipped steps count as NaN iterations if they are not
  /// finite.
  void add(const Losses& losses, bool skipped);

  /// Steps since the last line.
  int64_t iterations() const { return advanced_ + skipped_; }

  /// The line about all steps since the last line, of which there must be at least one; resets the
  /// sums. Losses are means over the steps that were not skipped, in fp32 sums as in Megatron;
  /// those that are not above 0 (all steps skipped, NaN) are omitted.
  /// elapsed_seconds: since the last line. now: when it is. tflops: per GPU, where --log-throughput
  /// asks for it.
  std::string iteration_line(const IterationFigures& figures, double elapsed_seconds,
                             std::time_t now, std::optional<double> tflops = std::nullopt);

 private:
  bool dated_;
  int64_t advanced_ = 0;
  int64_t skipped_ = 0;
  int64_t nan_ = 0;
  Losses sums_;
};

/// The same number; NaN without its sign, which Python does not print.
double printed(double value);

/// "2025-04-13 23:41:20", in local time.
std::string log_time(std::time_t time);

}  // namespace meg::logging
