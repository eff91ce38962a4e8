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

/// What a run says on its way: Megatron's lines, its throughput, TensorBoard's points. The last
/// rank says it; all of them call the functions.
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
    /// Of the device in the run's type, where it is known.
    std::optional<double> peak_tflops;
    /// Where the model is one that it is known for.
    std::optional<model::TheoreticalMemory> memory;
  };

  /// Errors: the event file cannot be made, save for a full disk.
  static Result<std::unique_ptr<RunReport>> create(Options options, const model::GptConfig& config,
                                                   const parallel::ParallelState& ranks,
                                                   Print print);

  Timers& timers() { return timers_; }

  /// Prints the times of these parts.
  void times(std::initializer_list<std::string_view> names);

  /// After every step; prints at multiples of log_interval, behind its first line also what memory
  /// was expected and what is used.
  void step(const logging::IterationFigures& figures, const logging::Losses& losses, bool skipped);

  void evaluation(logging::Evaluation kind, int64_t iteration, int64_t consumed_train_samples,
                  const logging::Losses& losses);

  /// The time until now is no step's.
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

  /// Writes points for TensorBoard. A run does not end because its disk is full: it says so once
  /// and writes no more.
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
