#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/base/stopwatch.h"
#include "libmeg/logging/log_lines.h"
#include "libmeg/logging/tensorboard_log.h"
#include "libmeg/logging/throughput.h"
#include "libmeg/logging/training_log.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/theoretical_memory.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/train/internal/timers.h"

namespace meg::train {

/// Reports the progress of a run: Megatron's lines, its throughput, TensorBoard's points. All ranks
/// call the functions; the last one prints.
class RunReport {
 public:
  using Print = std::function<void(const std::string& line)>;

  struct Options {
    int64_t log_interval = 100;
    std::optional<std::string> tensorboard_dir;
    logging::TensorboardCurves curves;
    bool log_throughput = false;
    Timers::Options timers;
    megatron::MegatronVersion version = megatron::newest_megatron_version();
    /// Peak of the device for the run's dtype, if it is known.
    std::optional<double> peak_tflops;
    /// Set if it is known for this kind of model.
    std::optional<model::TheoreticalMemory> memory;
  };

  /// Fails if the event file cannot be created, unless the disk is full.
  static Result<std::unique_ptr<RunReport>> create(Options options, const model::GptConfig& config,
                                                   const parallel::ParallelState& ranks,
                                                   Print print);

  Timers& timers() { return timers_; }

  /// Prints the times of these parts.
  void times(std::initializer_list<std::string_view> names);

  /// Called after every step. Prints at multiples of log_interval; after the first line also the
  /// expected and the used memory.
  void step(const logging::IterationFigures& figures, const logging::Losses& losses, bool skipped);

  void evaluation(logging::Evaluation kind, int64_t iteration, int64_t consumed_train_samples,
                  const logging::Losses& losses);

  /// Excludes the time until now from that of steps.
  void leave_out_time() { since_last_line_ = Stopwatch(); }

  void flush();

 private:
  RunReport(Options options, const model::GptConfig& config, const parallel::ParallelState& ranks,
            Print print)
      : options_(std::move(options)),
        config_(config),
        ranks_(ranks),
        print_(std::move(print)),
        timers_(options_.timers),
        log_(options_.version) {}

  void interval(const logging::IterationFigures& figures);

  /// Writes points for TensorBoard. If the disk is full, prints a warning once and writes no more:
  /// that must not end a run.
  void draw(const std::function<Status(logging::TensorboardWriter& writer)>& points);
  void stop_drawing(const Status& status);
  void memory(int64_t iteration);

  Options options_;
  model::GptConfig config_;
  parallel::ParallelState ranks_;
  Print print_;
  Timers timers_;
  logging::TrainingLog log_;
  std::optional<logging::TensorboardWriter> tensorboard_;
  Stopwatch since_last_line_;
  bool memory_is_said_ = false;
};

}  // namespace meg::train
