#pragma once

#include <cstdint>
#include <vector>

namespace meg::train {

/// A micro-batch's way through the chunk of a model that a pipeline stage holds.
struct PipelineStep {
  enum class Pass : uint8_t { kForward, kBackward };

  Pass pass = Pass::kForward;
  int64_t micro_batch = 0;
  int64_t chunk = 0;
};

/// A stage of a pipeline. A model without one is the only stage.
struct PipelinePlace {
  int64_t stage = 0;
  int64_t stages = 1;
  int64_t chunks = 1;  ///< Virtual stages of each stage.
  /// Micro-batches that each of several chunks takes one after the other: the stages at least.
  int64_t group = 1;
};

/// What a stage does in a training step, in this order: forward steps until its first gradient can
/// arrive, then one backward step behind each forward step. No stage keeps more micro-batches than
/// the stages behind it make necessary. With several chunks micro_batches is a group at least, and
/// what is left over of groups is nothing, or the stages at least.
/// Mirrors Megatron-LM megatron/core/pipeline_parallel/schedules.py: get_schedule_table,
/// get_pp_rank_microbatches and the two schedules that use them.
std::vector<PipelineStep> pipeline_schedule(const PipelinePlace& place, int64_t micro_batches);

/// The same without backward steps, of any number of micro-batches.
std::vector<PipelineStep> forward_schedule(const PipelinePlace& place, int64_t micro_batches);

}  // namespace meg::train
