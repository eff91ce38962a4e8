#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/libtorch/device_figures.h"
#include "libmeg/logging/log_lines.h"
#include "libmeg/parallel/process_group.h"

namespace meg::train {

/// The times that parts of a run take, under Megatron's names, summed until they are printed.
/// Mirrors Megatron-LM megatron/core/timers.py: Timers.
class Timers {
 public:
  struct Options {
    int64_t log_level = 0;  ///< --timing-log-level: parts of a higher level are not measured.
    logging::TimingLogOption log_option = logging::TimingLogOption::kMinMax;
    at::Device device = at::kCPU;  ///< Waited for at both ends of a part.
  };

  explicit Timers(const Options& options) : options_(options) {}

  /// Runs `work` and returns what it returns.
  template <class Work>
  auto measure(std::string_view name, int64_t log_level, Work&& work) {
    if (log_level > options_.log_level) return std::forward<Work>(work)();
    libtorch::synchronize(options_.device);
    const Stopwatch watch;
    auto result = std::forward<Work>(work)();
    libtorch::synchronize(options_.device);
    seconds_[std::string(name)] += watch.seconds();
    return result;
  }

  /// The times of those `names` that were measured since the last call, from all ranks of `group`,
  /// or only from this rank if they cannot be gathered, in which case the next collective reports
  /// the error.
  std::vector<logging::TimerTimes> take(std::initializer_list<std::string_view> names,
                                        parallel::ProcessGroup& group) {
    std::vector<double> own;
    for (const std::string_view name : names) own.push_back(taken(name));
    const Result<std::vector<double>> all = parallel::gather(group, own);
    const std::vector<double>& figures = all.has_value() ? *all : own;
    std::vector<logging::TimerTimes> times;
    for (size_t i = 0; i < own.size(); ++i) {
      logging::TimerTimes part;
      part.name = names.begin()[i];
      for (size_t j = i; j < figures.size(); j += own.size()) {
        part.seconds_by_rank.push_back(figures[j]);
      }
      if (std::ranges::any_of(part.seconds_by_rank, [](double seconds) { return seconds > 0; })) {
        times.push_back(std::move(part));
      }
    }
    return times;
  }

 private:
  /// 0: not measured.
  double taken(std::string_view name) {
    const auto found = seconds_.find(name);
    if (found == seconds_.end()) return 0;
    return seconds_.extract(found).mapped();
  }

  Options options_;
  std::map<std::string, double, std::less<>> seconds_;
};

}  // namespace meg::train
