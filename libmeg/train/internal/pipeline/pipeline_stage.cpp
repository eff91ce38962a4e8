#include "libmeg/train/internal/pipeline/pipeline_stage.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "libmeg/libtorch/torch_guard.h"

// One stage of a pipeline: takes micro-batches through its chunks by the schedule's steps, receives
// what the stage before (or after) computed and sends on what it computes itself. A model without
// a pipeline is a stage that sends nothing.
//
// Memory: a pass keeps its graph from forward to backward. The last chunk computes its gradients in
// the forward step and keeps only the gradient of its input.

namespace meg::train {
namespace {

PipelinePlace place_of(const ModelChunks& model, const parallel::ParallelState& ranks,
                       std::optional<int64_t> group) {
  return {.stage = ranks.pipeline()->rank(),
          .stages = ranks.pipeline()->size(),
          .chunks = model.size(),
          .group = group.value_or(ranks.pipeline()->size())};
}

at::Tensor loss_sum(const DeviceBatch& batch, const at::Tensor& losses) {
  return at::sum(losses * batch.loss_mask);
}

}  // namespace

void StepLosses::add(const at::Tensor& sum, const at::Tensor& tokens) {
  figures_.push_back(sum.to(at::kDouble));
  figures_.push_back(tokens.to(at::kDouble));
}

void StepLosses::add_nothing() {
  // Added for each micro-batch on stages without losses, so that all stages have as many and can be
  // sent the last one's.
  const at::Tensor zero = at::zeros({}, at::kDouble);
  figures_.insert(figures_.end(), {zero, zero});
}

Result<std::vector<MicroBatchLoss>> StepLosses::read(const nn::GptModel& model) {
  std::vector<MicroBatchLoss> losses;
  if (figures_.empty()) return losses;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&]() -> Status {
    const at::Tensor& error = model.label_error();
    // The label check runs on the GPU with the losses; it is read together with them, in one copy.
    figures_.push_back(error.defined() ? error[0].to(at::kDouble) : at::zeros({}, at::kDouble));
    const at::Tensor all = at::stack(figures_).cpu();
    const auto figures = all.accessor<double, 1>();
    const int64_t last = all.size(0) - 1;
    for (int64_t i = 0; i < last; i += 2) {
      losses.push_back({.loss_sum = figures[i], .tokens = figures[i + 1]});
    }
    if (figures[last] == 0) return {};
    return make_error(StatusCode::kOutOfRange, "labels: expected 0 to {}, found others",
                      model.config().padded_vocab_size - 1);
  }));
  return losses;
}

PipelineStage::PipelineStage(const ModelChunks& model, const NextMicroBatch& next,
                             const parallel::ParallelState& ranks, std::optional<int64_t> group,
                             ScheduleTrace* trace)
    : model_(model),
      trace_(trace),
      place_(place_of(model, ranks, group)),
      links_(ranks, place_.group),
      // Other chunks, and backward passes of other stages, come when later micro-batches were
      // asked for.
      batches_(next, model.options().device, /*copy=*/!links_.is_last() || place_.chunks > 1),
      passes_(static_cast<size_t>(place_.chunks)) {}

Status PipelineStage::evaluate(const PipelineStep& step) {
  const c10::AutoGradMode no_gradients(false);
  MEG_ASSIGN_OR_RETURN(const DeviceBatch batch, receive(step));
  if (!is_last(step.chunk)) return pass_on(batch, step).status();
  MEG_ASSIGN_OR_RETURN(const at::Tensor losses, model_[step.chunk].loss(batch.input, batch.labels));
  losses_.add(loss_sum(batch, losses), batch.loss_mask.sum());
  return {};
}

Status PipelineStage::forward(const PipelineStep& step, double factor, StepLoss step_loss) {
  std::deque<Pass>& passes = passes_[static_cast<size_t>(step.chunk)];
  MEG_ASSIGN_OR_RETURN(DeviceBatch batch, receive(step));
  at::Tensor& input = batch.input.hidden_states;
  // The input came over the wire, so it is a leaf: autograd leaves its gradient for the stage
  // before.
  if (input.defined()) input.requires_grad_(true);
  // Those of tokens are scaled by their number later, when all are counted.
  model_[step.chunk].auxiliary_losses().scale =
      step_loss == StepLoss::kMeanOfTokens ? factor * static_cast<double>(batch.labels.numel())
                                           : factor;
  if (!is_last(step.chunk)) {
    MEG_ASSIGN_OR_RETURN(at::Tensor output, pass_on(batch, step));
    passes.push_back({.input = input, .output = std::move(output)});
    return {};
  }
  const at::Tensor tokens = batch.loss_mask.sum();
  at::Tensor grad_losses = batch.loss_mask * factor;
  // The gradient of the loss is known before the loss is: the mask, the loss scale and the number
  // of tokens are all that it depends on. clamp_min: Megatron clamps num_tokens to 1 as well
  // (forward_step_calc_loss).
  if (step_loss == StepLoss::kMeanOfMicroBatches) grad_losses.div_(tokens.clamp_min(1));
  MEG_ASSIGN_OR_RETURN(const at::Tensor losses, traced(trace_, "forward and backward", &step, [&] {
                         return model_[step.chunk].loss_and_gradients(batch.input, batch.labels,
                                                                      grad_losses);
                       }));
  losses_.add(loss_sum(batch, losses), tokens);
  passes.push_back({.input = input, .output = {}});
  // No output: backward() has nothing to receive for this pass and goes straight to its input's
  // gradient.
  return {};
}

Status PipelineStage::backward(const PipelineStep& step) {
  // The oldest one: backward steps come in the order of forward steps.
  std::deque<Pass>& passes = passes_[static_cast<size_t>(step.chunk)];
  const Pass pass = std::move(passes.front());
  passes.pop_front();
  if (pass.output.defined()) {
    at::Tensor gradient = at::empty_like(pass.output, at::MemoryFormat::Contiguous).detach();
    MEG_RETURN_IF_ERROR(links_.receive_backward(gradient));
    MEG_RETURN_IF_ERROR(traced(trace_, "backward", &step, [&] {
      torch::autograd::backward({pass.output}, {std::move(gradient)});
      return Status();
    }));
  }
  return is_first(step.chunk) ? Status() : links_.send_backward(pass.input.grad());
}

Result<std::vector<MicroBatchLoss>> PipelineStage::finish() {
  MEG_RETURN_IF_ERROR(links_.finish());
  return losses_.read(model_[place_.chunks - 1]);
}

Result<DeviceBatch> PipelineStage::batch_of(const PipelineStep& step) {
  // Every stage draws the micro-batch with its chunk 0 and keeps it for its other chunks: labels,
  // masks and positions do not travel with the hidden states.
  const bool comes_back = step.chunk + 1 < place_.chunks;
  if (step.chunk == 0) {
    MEG_ASSIGN_OR_RETURN(DeviceBatch batch, batches_.next());
    if (comes_back) held_.emplace(step.micro_batch, batch);
    return batch;
  }
  const auto held = held_.find(step.micro_batch);
  DeviceBatch batch = held->second;
  if (!comes_back) held_.erase(held);
  return batch;
}

Result<DeviceBatch> PipelineStage::receive(const PipelineStep& step) {
  MEG_ASSIGN_OR_RETURN(DeviceBatch batch, batch_of(step));
  if (is_first(step.chunk)) return batch;
  const nn::TensorParallel& ranks = model_.part().tensor_parallel;
  // With sequence parallelism a rank's part of each sequence is all that is sent between stages.
  const int64_t parts = ranks.splits_sequences() ? ranks.size() : 1;
  batch.input.hidden_states =
      at::empty({batch.labels.size(0), batch.labels.size(1) / parts, model_.config().hidden_size},
                batch.loss_mask.options().dtype(model_.options().residual_dtype()));
  MEG_RETURN_IF_ERROR(links_.receive_forward(batch.input.hidden_states));
  return batch;
}

Result<at::Tensor> PipelineStage::pass_on(const DeviceBatch& batch, const PipelineStep& step) {
  MEG_ASSIGN_OR_RETURN(at::Tensor output, traced(trace_, "forward", &step, [&] {
                         return model_[step.chunk].hidden_states(batch.input);
                       }));
  MEG_RETURN_IF_ERROR(links_.send_forward(output));
  if (step.chunk + 1 == place_.chunks) losses_.add_nothing();
  return output;
}

}  // namespace meg::train
