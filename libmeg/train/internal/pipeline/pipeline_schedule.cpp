#include "libmeg/train/internal/pipeline/pipeline_schedule.h"

#include <algorithm>

// The order of forward and backward passes on one stage: 1F1B, and its interleaved form where a
// stage holds several chunks (megatron/core/pipeline_parallel/schedules.py:
// forward_backward_pipelining_with_interleaving).
//
// A schedule is the list of forward steps and the same list as backward steps, shifted by the
// warm-up. It needs to fit those of other stages only in the order of messages between neighbours,
// which is that of micro-batches within groups.

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
  // One for each stage after this one, which is how long the first micro-batch takes to the last
  // stage. Interleaved, every chunk but the last needs a whole group first, and the time of the way
  // back is filled with forward steps as well: Megatron's get_pp_rank_microbatches.
  const int64_t behind = place.stages - place.stage - 1;
  return place.chunks == 1 ? behind : 2 * behind + (place.chunks - 1) * place.group;
}

}  // namespace

// `group` micro-batches go through one chunk before the next chunk takes them, so that the first of
// them has come round the pipeline when it is needed.
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
  // Steps before i = warmup are forward alone, those after the last forward step backward alone;
  // between them one of each.
  for (size_t i = 0; i < forward.size() + warmup; ++i) {
    if (i < forward.size()) steps.push_back(forward[i]);
    if (i >= warmup) steps.push_back(backward_step(forward[i - warmup], place.chunks));
  }
  return steps;
}

}  // namespace meg::train
