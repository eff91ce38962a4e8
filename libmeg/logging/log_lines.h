#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/logging/training_log.h"

namespace meg::logging {

/// When an evaluation happens.
enum class Evaluation : uint8_t { kDuringTraining, kFinalValidation, kFinalTest };

/// exp of a loss, which counts as 20 at most.
double perplexity(double loss);

/// " validation loss at iteration 50 | lm loss value: 8.889540E+00 | lm loss PPL: 7.255679E+03 | "
/// between two lines of dashes; at the end "at iteration 50 on validation set" or "on test set".
/// Mirrors evaluate_and_print_results.
std::vector<std::string> validation_lines(Evaluation evaluation, int64_t iteration,
                                          const Losses& losses);

/// "Evaluating on 160 samples", which begins the evaluations at the end of a run.
std::string evaluation_size_line(int64_t samples);

/// "Evaluating iter 3/5", before each of its iterations.
std::string evaluation_progress_line(int64_t iteration, int64_t iterations);

/// A line for each argument and its value, sorted, between two lines. Mirrors _print_args.
std::vector<std::string> arguments_lines(
    std::span<const std::pair<std::string, std::string>> arguments);

/// "using world size: 1, data-parallel size: 1, context-parallel size: 1, ...", as since
/// core_v0.14.
struct RankCounts {
  int64_t world = 1, data = 1, tensor = 1, pipeline = 1;
};

std::string world_size_line(const RankCounts& ranks);

/// " > datasets target sizes (minimum size):" and one line a split. None: an epoch.
std::vector<std::string> target_sizes_lines(std::optional<int64_t> train,
                                            std::optional<int64_t> validation,
                                            std::optional<int64_t> test);

/// The time of a timer on every rank since the last log.
struct TimerTimes {
  std::string name;                     ///< Such as "forward-backward".
  std::vector<double> seconds_by_rank;  ///< 0 if the rank did not run it.
};

/// --timing-log-option
enum class TimingLogOption : uint8_t { kMax, kMinMax, kAll };

/// "(min, max) time across ranks (ms):" and one line per timer; nothing if no timer ran.
/// normalizer: the number of steps by which the times are divided. Mirrors megatron/core/timers.py.
std::vector<std::string> timers_lines(TimingLogOption option, std::span<const TimerTimes> timers,
                                      double normalizer);

/// Memory of a GPU in bytes, as its allocator counts it.
struct DeviceMemory {
  int64_t allocated = 0;
  int64_t max_allocated = 0;
  int64_t reserved = 0;
  int64_t max_reserved = 0;
};

/// "[Rank 0] (after 10 iterations) memory (MB) | allocated: 512.25 | ...", with two digits as
/// since core_v0.16. Mirrors report_memory.
std::string memory_line(int64_t rank, int64_t iterations, const DeviceMemory& memory);

/// The same of a run on a CPU, which has no such allocator: "... memory (MB) | max resident:
/// 512.25".
std::string resident_memory_line(int64_t rank, int64_t iterations, int64_t peak_bytes);

/// "[before the start of training step] datetime: 2025-04-13 23:41:20 ", with a space at its end.
/// Mirrors print_datetime.
std::string datetime_line(std::string_view what, std::time_t time);

}  // namespace meg::logging
