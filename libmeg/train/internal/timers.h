#pragma once

#include <ATen/core/Tensor.h>

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

namespace meg::train {

/// How long the parts of a run take, by Megatron's names for them, summed until they are said.
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

  /// Those of `names` that were measured since they were taken last.
  std::vector<logging::TimerTimes> take(std::initializer_list<std::string_view> names) {
    std::vector<logging::TimerTimes> taken;
    for (const std::string_view name : names) {
      const auto found = seconds_.find(name);
      if (found == seconds_.end()) continue;
      taken.push_back({.name = found->first, .seconds_by_rank = {found->second}});
      seconds_.erase(found);
    }
    return taken;
  }

 private:
  Options options_;
  std::map<std::string, double, std::less<>> seconds_;
};

}  // namespace meg::train
