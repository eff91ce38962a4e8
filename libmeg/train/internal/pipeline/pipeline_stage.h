#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "libmeg/parallel/pipeline_links.h"
#include "libmeg/train/internal/device_batches.h"
#include "libmeg/train/internal/pipeline/pipeline_schedule.h"
#include "libmeg/train/internal/pipeline/schedule_trace.h"
#include "libmeg/train/internal/train_step.h"
#include "libmeg/train/model_chunks.h"

namespace meg::train {

/// The losses of a step's micro-batches, and whether a label was out of range. They stay on the
/// device until all are computed, because reading one would wait for it.
class StepLosses {
 public:
  /// sum: of the losses of tokens that the mask keeps; tokens: their number. Scalars on the device.
  void add(const at::Tensor& sum, const at::Tensor& tokens);

  /// Adds a micro-batch whose loss another stage has.
  void add_nothing();

  /// model: the model that computed them.
  Result<std::vector<MicroBatchLoss>> read(const nn::GptModel& model);

 private:
  std::vector<at::Tensor> figures_;
};

/// Runs micro-batches through one stage of a pipeline; a model without a pipeline is a single
/// stage. Its steps must be called in the order of a schedule.
/// Mirrors Megatron-LM megatron/core/pipeline_parallel/schedules.py: forward_step, backward_step.
class PipelineStage {
 public:
  /// group: as in PipelinePlace; nullopt: the number of stages. trace: records the computation
  /// unless null.
  PipelineStage(const ModelChunks& model, const NextMicroBatch& next,
                const parallel::ParallelState& ranks, std::optional<int64_t> group,
                ScheduleTrace* trace = nullptr);

  PipelinePlace place() const { return place_; }

  /// A forward step without gradients.
  Status evaluate(const PipelineStep& step);

  /// factor: multiplies the micro-batch's loss. In the last chunk it includes the backward pass.
  Status forward(const PipelineStep& step, double factor, StepLoss step_loss);

  /// The backward pass of the chunk's oldest micro-batch that has run forward.
  Status backward(const PipelineStep& step);

  /// Waits for all sends and returns the losses of the micro-batches, in order.
  Result<std::vector<MicroBatchLoss>> finish();

 private:
  struct Pass {
    at::Tensor input;   ///< Undefined in the first chunk of the model.
    at::Tensor output;  ///< Undefined in the last one.
  };

  bool is_first(int64_t chunk) const { return links_.is_first() && chunk == 0; }

  bool is_last(int64_t chunk) const { return links_.is_last() && chunk + 1 == place_.chunks; }

  Result<DeviceBatch> batch_of(const PipelineStep& step);

  /// Receives the hidden states of the previous chunk with the micro-batch.
  Result<DeviceBatch> receive(const PipelineStep& step);

  Result<at::Tensor> pass_on(const DeviceBatch& batch, const PipelineStep& step);

  const ModelChunks& model_;
  ScheduleTrace* trace_;
  PipelinePlace place_;
  parallel::PipelineLinks links_;
  DeviceBatches batches_;
  StepLosses losses_;
  std::map<int64_t, DeviceBatch> held_;   ///< By micro-batch: kept for later chunks.
  std::vector<std::deque<Pass>> passes_;  ///< By chunk.
};

}  // namespace meg::train
