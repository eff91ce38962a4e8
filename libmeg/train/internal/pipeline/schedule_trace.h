#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/libtorch/device_figures.h"
#include "libmeg/parallel/observed_group.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/train/internal/pipeline/pipeline_schedule.h"

namespace meg::train {

/// Records what this rank does in a step, and when. write() writes the last step as a trace of all
/// ranks.
class ScheduleTrace {
 public:
  /// device: waited for at both ends of each recorded event.
  explicit ScheduleTrace(at::Device device) : device_(device) {}

  /// Forgets the previous step.
  void begin_step() {
    events_.clear();
    in_step_ = true;
  }

  void end_step() { in_step_ = false; }

  /// Runs `work` and returns what it returns. step: the step to which it belongs; nullptr: none.
  template <class Work>
  auto record(std::string_view name, const PipelineStep* step, Work&& work) {
    libtorch::synchronize(device_);
    const Clock::time_point begin = Clock::now();
    auto result = std::forward<Work>(work)();
    libtorch::synchronize(device_);
    add(name, "computation", step == nullptr ? "" : step_arguments(*step), begin, Clock::now());
    return result;
  }

  /// Records a communication; ignored outside steps.
  void observe(const parallel::Communication& communication);

  /// Called by all ranks; the first one writes. Chrome's format: one process per rank, with times
  /// relative to the first event of all ranks, as far as the clocks of their machines agree.
  Status write(const std::string& path, const parallel::ParallelState& ranks) const;

 private:
  using Clock = std::chrono::system_clock;

  struct Event {
    std::string_view name, category;
    std::string arguments;       ///< The members of a JSON object, without braces.
    int64_t begin = 0, end = 0;  ///< ns
    std::optional<int64_t> issued =
        std::nullopt;  ///< ns; set for events that were waited for from then on.
  };

  static std::string step_arguments(const PipelineStep& step);

  Event& add(std::string_view name, std::string_view category, std::string arguments,
             Clock::time_point begin, Clock::time_point end);

  std::string text(const parallel::Mesh& mesh, int64_t origin) const;

  at::Device device_;
  bool in_step_ = false;
  std::vector<Event> events_;
};

/// Runs `work`, and records it if there is a trace.
template <class Work>
auto traced(ScheduleTrace* trace, std::string_view name, const PipelineStep* step, Work&& work) {
  if (trace == nullptr) return std::forward<Work>(work)();
  return trace->record(name, step, std::forward<Work>(work));
}

}  // namespace meg::train
