#include "libmeg/logging/log_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace meg::logging {
namespace {

constexpr double kMegabyte = 1024.0 * 1024.0;

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / kMegabyte; }

std::string evaluation_place(Evaluation evaluation, int64_t iteration) {
  switch (evaluation) {
    case Evaluation::kDuringTraining:
      break;
    case Evaluation::kFinalValidation:
      return fmt::format("iteration {} on validation set", iteration);
    case Evaluation::kFinalTest:
      return fmt::format("iteration {} on test set", iteration);
  }
  return fmt::format("iteration {}", iteration);
}

std::string count_or_none(std::optional<int64_t> count) {
  return count ? std::to_string(*count) : "None";
}

/// Least and most seconds of the ranks that ran the timer; nullopt where none did.
std::optional<std::pair<double, double>> min_and_max(const TimerTimes& timer) {
  std::optional<std::pair<double, double>> found;
  for (const double seconds : timer.seconds_by_rank) {
    // Ranks that did not run a timer report 0, which would be the least of all.
    if (!(seconds > 0)) continue;
    if (!found) found.emplace(seconds, seconds);
    found->first = std::min(found->first, seconds);
    found->second = std::max(found->second, seconds);
  }
  return found;
}

/// Every rank's times, timer by timer.
std::vector<std::string> all_ranks_lines(std::span<const TimerTimes> timers, double unit) {
  std::vector<std::string> lines = {"times across ranks (ms):"};
  for (const TimerTimes& timer : timers) {
    if (!min_and_max(timer)) continue;
    lines.push_back(fmt::format("  {}:", timer.name));
    for (size_t rank = 0; rank < timer.seconds_by_rank.size(); ++rank) {
      const double seconds = timer.seconds_by_rank[rank];
      if (seconds > 0) {
        lines.push_back(fmt::format("     rank {:2d}: {:.2f}", rank, seconds / unit));
      }
    }
  }
  return lines;
}

}  // namespace

/// Megatron's bound: e^20 instead of infinity where training has only begun.
double perplexity(double loss) { return std::exp(std::min(20.0, loss)); }

std::vector<std::string> validation_lines(Evaluation evaluation, int64_t iteration,
                                          const Losses& losses) {
  std::string line =
      fmt::format(" validation loss at {} | ", evaluation_place(evaluation, iteration));
  for (const auto& [name, value] : losses) {
    const double loss = printed(static_cast<double>(value));
    fmt::format_to(std::back_inserter(line), "{} value: {:.6E} | {} PPL: {:.6E} | ", name, loss,
                   name, perplexity(loss));
  }
  // One more than the line has, as Megatron draws them.
  const std::string dashes(line.size() + 1, '-');
  return {dashes, line, dashes};
}

std::string evaluation_size_line(int64_t samples) {
  return fmt::format("Evaluating on {} samples", samples);
}

std::string evaluation_progress_line(int64_t iteration, int64_t iterations) {
  return fmt::format("Evaluating iter {}/{}", iteration, iterations);
}

std::vector<std::string> arguments_lines(
    std::span<const std::pair<std::string, std::string>> arguments) {
  constexpr size_t kDots = 48;
  std::vector<std::string> lines;
  for (const auto& [name, value] : arguments) {
    const std::string dots(kDots - std::min(kDots, name.size()), '.');
    lines.push_back(fmt::format("  {} {} {}", name, dots, value));
  }
  std::ranges::stable_sort(lines, {}, [](std::string line) {
    std::ranges::transform(line, line.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return line;
  });
  lines.insert(lines.begin(), "------------------------ arguments ------------------------");
  lines.emplace_back("-------------------- end of arguments ---------------------");
  return lines;
}

std::string world_size_line(const RankCounts& ranks) {
  return fmt::format(
      "using world size: {}, data-parallel size: {}, context-parallel size: 1, hierarchical "
      "context-parallel sizes: None, tensor-model-parallel size: {}, pipeline-model-parallel size: "
      "{}",
      ranks.world, ranks.data, ranks.tensor, ranks.pipeline);
}

std::vector<std::string> target_sizes_lines(std::optional<int64_t> train,
                                            std::optional<int64_t> validation,
                                            std::optional<int64_t> test) {
  return {" > datasets target sizes (minimum size):", "    train:      " + count_or_none(train),
          "    validation: " + count_or_none(validation), "    test:       " + count_or_none(test)};
}

std::vector<std::string> timers_lines(TimingLogOption option, std::span<const TimerTimes> timers,
                                      double normalizer) {
  // Divided by once, as in Megatron's timers: seconds * 1000 / normalizer may round otherwise.
  const double unit = normalizer / 1000.0;
  const bool some = std::any_of(timers.begin(), timers.end(), [](const TimerTimes& timer) {
    return min_and_max(timer).has_value();
  });
  if (!some) return {};
  if (option == TimingLogOption::kAll) return all_ranks_lines(timers, unit);

  const bool max_only = option == TimingLogOption::kMax;
  std::vector<std::string> lines = {max_only ? "max time across ranks (ms):"
                                             : "(min, max) time across ranks (ms):"};
  for (const TimerTimes& timer : timers) {
    const auto times = min_and_max(timer);
    if (!times) continue;
    const auto [least, most] = *times;
    lines.push_back(max_only ? fmt::format("    {:.<48}: {:.2f}", timer.name + " ", most / unit)
                             : fmt::format("    {:.<48}: ({:.2f}, {:.2f})", timer.name + " ",
                                           least / unit, most / unit));
  }
  return lines;
}

std::string memory_line(int64_t rank, int64_t iterations, const DeviceMemory& memory) {
  return fmt::format(
      "[Rank {}] (after {} iterations) memory (MB) | allocated: {:.2f} | max allocated: {:.2f} | "
      "reserved: {:.2f} | max reserved: {:.2f}",
      rank, iterations, megabytes(memory.allocated), megabytes(memory.max_allocated),
      megabytes(memory.reserved), megabytes(memory.max_reserved));
}

std::string resident_memory_line(int64_t rank, int64_t iterations, int64_t peak_bytes) {
  return fmt::format("[Rank {}] (after {} iterations) memory (MB) | max resident: {:.2f}", rank,
                     iterations, megabytes(peak_bytes));
}

std::string datetime_line(std::string_view what, std::time_t time) {
  return fmt::format("[{}] datetime: {} ", what, log_time(time));
}

}  // namespace meg::logging
