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

/// Losses of a step's micro-batches and whether a label was wrong, left on the device until all are
/// computed: reading one would wait for it.
class StepLosses {
 public:
  /// sum: of the kept tokens' losses; tokens: how many these are. Scalars on the device.
  void add(const at::Tensor& sum, const at::Tensor& tokens);

  /// Of a micro-batch whose loss another stage has.
  void add_nothing();

  /// model: what computed them.
  Result<std::vector<MicroBatchLoss>> read(const nn::GptModel& model);

 private:
  std::vector<at::Tensor> figures_;
};

/// Micro-batches on their way through one stage of a pipeline, of which a model without one is the
/// only stage. Its steps are called in the order of a schedule.
/// Mirrors Megatron-LM megatron/core/pipeline_parallel/schedules.py: forward_step, backward_step.
class PipelineStage {
 public:
  /// group: as PipelinePlace's; nullopt: the stages. trace: where not null, of what is computed.
  PipelineStage(const ModelChunks& model, const NextMicroBatch& next,
                const parallel::ParallelState& ranks, std::optional<int64_t> group,
                ScheduleTrace* trace = nullptr);

  PipelinePlace place() const { return place_; }

  /// Without gradients.
  Status evaluate(const PipelineStep& step);

  /// factor: of the micro-batch's loss. In the last chunk its backward pass, too.
  Status forward(const PipelineStep& step, double factor, StepLoss step_loss);

  /// Of the chunk's oldest micro-batch that went forward.
  Status backward(const PipelineStep& step);

  /// Waits for what is sent. Then the losses of the micro-batches, in their order.
  Result<std::vector<MicroBatchLoss>> finish();

 private:
  struct Pass {
    at::Tensor input;   ///< Undefined in the first chunk of the model.
    at::Tensor output;  ///< Undefined in the last one.
  };

  bool is_first(int64_t chunk) const { return links_.is_first() && chunk == 0; }

  bool is_last(int64_t chunk) const { return links_.is_last() && chunk + 1 == place_.chunks; }

  Result<DeviceBatch> batch_of(const PipelineStep& step);

  /// With the hidden states of the chunk before.
  Result<DeviceBatch> receive(const PipelineStep& step);

  Result<at::Tensor> pass_on(const DeviceBatch& batch, const PipelineStep& step);

  const ModelChunks& model_;
  ScheduleTrace* trace_;
  PipelinePlace place_;
  parallel::PipelineLinks links_;
  DeviceBatches batches_;
  StepLosses losses_;
  std::map<int64_t, DeviceBatch> held_;   ///< By micro-batch: what further chunks take.
  std::vector<std::deque<Pass>> passes_;  ///< By chunk.
};

}  // namespace meg::train
