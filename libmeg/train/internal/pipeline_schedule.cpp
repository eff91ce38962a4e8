#include "libmeg/train/internal/pipeline_schedule.h"

#include <algorithm>

namespace meg::train {
namespace {

using Pass = PipelineStep::Pass;

/// Gradients go through the chunks the other way round.
PipelineStep backward_step(PipelineStep forward, int64_t chunks) {
  return {.pass = Pass::kBackward,
          .micro_batch = forward.micro_batch,
          .chunk = chunks - 1 - forward.chunk};
}

/// Forward steps of a stage before its first backward step.
int64_t warmup_steps(const PipelinePlace& place) {
  const int64_t behind = place.stages - place.stage - 1;
  return place.chunks == 1 ? behind : 2 * behind + (place.chunks - 1) * place.group;
}

}  // namespace

std::vector<PipelineStep> forward_schedule(const PipelinePlace& place, int64_t micro_batches) {
  std::vector<PipelineStep> steps;
  for (int64_t first = 0; first < micro_batches; first += place.group) {
    const int64_t end = std::min(first + place.group, micro_batches);
    for (int64_t chunk = 0; chunk < place.chunks; ++chunk) {
      for (int64_t i = first; i < end; ++i) {
        steps.push_back({.pass = Pass::kForward, .micro_batch = i, .chunk = chunk});
      }
    }
  }
  return steps;
}

std::vector<PipelineStep> pipeline_schedule(const PipelinePlace& place, int64_t micro_batches) {
  const std::vector<PipelineStep> forward = forward_schedule(place, micro_batches);
  const size_t warmup = std::min(static_cast<size_t>(warmup_steps(place)), forward.size());
  std::vector<PipelineStep> steps;
  for (size_t i = 0; i < forward.size() + warmup; ++i) {
    if (i < forward.size()) steps.push_back(forward[i]);
    if (i >= warmup) steps.push_back(backward_step(forward[i - warmup], place.chunks));
  }
  return steps;
}

}  // namespace meg::train
