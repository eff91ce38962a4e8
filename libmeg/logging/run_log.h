#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::logging {

/// A number as it was written: the run's own is within `rounding` of `value`.
struct LoggedFigure {
  double value = 0;
  double rounding = 0;
};

/// Of iterations and samples; a larger one is no run's.
inline constexpr int64_t kLargestCount = int64_t{1} << 53;

using LoggedFigures = std::vector<std::pair<std::string, LoggedFigure>>;

/// What a run said after one step or several. Fields that it did not say are empty.
struct LoggedSteps {
  int64_t line = 0;  ///< Of the log, from 1; 0 in event files.
  /// Its time has microseconds, as since core_v0.16.
  bool has_microseconds = false;
  int64_t iteration = 0;
  std::optional<int64_t> train_iters;
  std::optional<int64_t> consumed_samples;
  std::optional<LoggedFigure> milliseconds;   ///< Of one step, on average.
  std::optional<LoggedFigure> learning_rate;  ///< That of the next step.
  std::optional<int64_t> batch_size;
  std::optional<LoggedFigure> loss_scale;
  std::optional<LoggedFigure> grad_norm;  ///< Of the last step.
  std::optional<LoggedFigure> params_norm;
  std::optional<int64_t> skipped_iterations;
  std::optional<int64_t> nan_iterations;
  /// Means over the steps that were not skipped: "lm loss" first, then what else had a name.
  LoggedFigures losses;

  std::optional<LoggedFigure> lm_loss() const;
};

/// What an evaluation said.
struct LoggedValidation {
  int64_t line = 0;
  int64_t iteration = 0;
  std::string set;  ///< "validation" or "test" at the end of a run, else empty.
  LoggedFigures losses;
};

/// That a run began from a checkpoint.
struct LoggedLoad {
  int64_t line = 0;
  int64_t iteration = 0;
  std::string folder;
};

/// What was read of a run, or of several one after another.
struct RunLog {
  std::string path;
  /// Curves: losses are those of the last step alone instead of means since the last line.
  bool of_single_steps = false;
  std::vector<LoggedSteps> steps;  ///< In the order of the file.
  std::vector<LoggedValidation> validations;
  std::vector<LoggedLoad> loads;
  std::vector<std::string> notes;  ///< Lines that were left out.
};

/// Reads the lines that a run printed, of any revision of Megatron: with and without dates, with a
/// launcher's prefix ("0: ", "[default3]:"), among any other lines. A line that was cut is left out
/// and noted. kNotFound and kIoError for the file; kInvalidArgument if it has no line about an
/// iteration. Mirrors what Megatron-LM megatron/training/training.py: training_log and
/// evaluate_and_print_results print.
Result<RunLog> read_log(const std::string& path);

/// Reads the curves of a run's event files: one file, or all in a folder by their names' times.
/// kCorruption for bytes that are no event file; a last record that was cut is left out and noted.
/// kInvalidArgument if there is no curve of Megatron's.
Result<RunLog> read_tensorboard_log(const std::string& path);

}  // namespace meg::logging
