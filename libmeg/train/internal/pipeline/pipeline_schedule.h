#pragma once

#include <cstdint>
#include <vector>

namespace meg::train {

/// A forward or backward pass of a micro-batch through a chunk of a pipeline stage.
struct PipelineStep {
  enum class Pass : uint8_t { kForward, kBackward };

  Pass pass = Pass::kForward;
  int64_t micro_batch = 0;
  int64_t chunk = 0;
};

/// A stage of a pipeline. A model without a pipeline is a single stage.
struct PipelinePlace {
  int64_t stage = 0;
  int64_t stages = 1;
  int64_t chunks = 1;  ///< Virtual stages of each stage.
  /// Consecutive micro-batches of each of several chunks: at least the number of stages.
  int64_t group = 1;
};

/// The order in which a stage works in a training step: forward steps until its first gradient can
/// arrive, then one backward step after each forward step. No stage keeps more micro-batches than
/// the later stages require. With several chunks, micro_batches must be at least a group, and the
/// remainder after whole groups must be zero or at least the number of stages.
/// Mirrors Megatron-LM megatron/core/pipeline_parallel/schedules.py: get_schedule_table,
/// get_pp_rank_microbatches and the two schedules that use them.
std::vector<PipelineStep> pipeline_schedule(const PipelinePlace& place, int64_t micro_batches);

/// The same without backward steps, for any number of micro-batches.
std::vector<PipelineStep> forward_schedule(const PipelinePlace& place, int64_t micro_batches);

}  // namespace meg::train
