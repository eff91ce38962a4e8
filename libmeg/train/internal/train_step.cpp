#include "libmeg/train/internal/train_step.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/pipeline_links.h"

namespace meg::train {
namespace {

using libtorch::torch_guard;

/// A micro-batch on the model's device.
struct Batch {
  nn::GptInput input;
  at::Tensor labels;     // [b, s] int64
  at::Tensor loss_mask;  // [b, s] fp32
};

template <class T>
at::Tensor borrowed(std::span<T> values, at::IntArrayRef shape, at::ScalarType type) {
  return at::from_blob(values.data(), shape, at::TensorOptions().dtype(type));
}

/// copy: where `batch` is read again while this is in use; else a CPU's tensors are its own memory.
Batch on_device(const samples::MicroBatch& batch, at::Device device, bool copy) {
  const int64_t b = batch.samples;
  const int64_t s = batch.sequence_length;
  const auto move = [device, copy](const at::Tensor& tensor) {
    return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true, copy);
  };
  Batch moved;
  moved.input.tokens = move(borrowed(batch.tokens, {b, s}, at::kLong));
  if (!batch.counts_positions) {
    moved.input.position_ids = move(borrowed(batch.position_ids, {b, s}, at::kLong));
  }
  if (!batch.attention_mask.empty()) {
    moved.input.attention_mask = move(borrowed(batch.attention_mask, {b, 1, s, s}, at::kBool));
  }
  moved.labels = move(borrowed(batch.labels, {b, s}, at::kLong));
  moved.loss_mask = move(borrowed(batch.loss_mask, {b, s}, at::kFloat));
  return moved;
}

/// The sum of the kept tokens' losses, and how many these are; both scalars on the device.
struct MaskedLoss {
  at::Tensor sum;
  at::Tensor tokens;
};

MaskedLoss masked_loss(const Batch& batch, const at::Tensor& losses, at::Tensor tokens) {
  return {.sum = at::sum(losses * batch.loss_mask), .tokens = std::move(tokens)};
}

MicroBatchLoss total_loss(const std::vector<MicroBatchLoss>& losses) {
  MicroBatchLoss total;
  for (const MicroBatchLoss& loss : losses) {
    total.loss_sum += loss.loss_sum;
    total.tokens += loss.tokens;
  }
  return total;
}

/// What the last stage has of its micro-batches' losses, on all stages of all data-parallel ranks:
/// as many of each of these.
Result<std::vector<MicroBatchLoss>> of_all_ranks(const parallel::ParallelState& ranks,
                                                 const std::vector<MicroBatchLoss>& losses) {
  if (ranks.data()->size() == 1 && ranks.pipeline()->size() == 1) return losses;
  std::vector<double> figures;
  for (const MicroBatchLoss& loss : losses) {
    figures.insert(figures.end(), {loss.loss_sum, loss.tokens});
  }
  const auto count = static_cast<int64_t>(figures.size());
  MEG_RETURN_IF_ERROR(ranks.pipeline()->broadcast(
      at::from_blob(figures.data(), {count}, at::kDouble), ranks.pipeline()->size() - 1));
  MEG_ASSIGN_OR_RETURN(figures, parallel::gather(*ranks.data(), std::move(figures)));
  std::vector<MicroBatchLoss> all;
  for (size_t i = 0; i < figures.size(); i += 2) {
    all.push_back({.loss_sum = figures[i], .tokens = figures[i + 1]});
  }
  return all;
}

/// Losses of a step's micro-batches and whether a label was wrong, left on the device until all are
/// computed: reading one would wait for it.
class StepLosses {
 public:
  void add(const MaskedLoss& loss) {
    figures_.push_back(loss.sum.to(at::kDouble));
    figures_.push_back(loss.tokens.to(at::kDouble));
  }

  /// Of a micro-batch whose loss another stage has.
  void add_nothing() {
    const at::Tensor zero = at::zeros({}, at::kDouble);
    figures_.insert(figures_.end(), {zero, zero});
  }

  Result<std::vector<MicroBatchLoss>> read(const nn::GptModel& model) {
    std::vector<MicroBatchLoss> losses;
    if (figures_.empty()) return losses;
    MEG_RETURN_IF_ERROR(libtorch::torch_guard([&]() -> Status {
      const at::Tensor& error = model.label_error();
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

 private:
  std::vector<at::Tensor> figures_;
};

/// Micro-batches on the model's device. Copies to a GPU continue while the caller gives it work, so
/// the next micro-batch is asked for (and with it the last one's memory given back) when they are
/// done: the GPU then still has the last one's forward and backward to do.
class DeviceBatches {
 public:
  /// copy: batches stay valid while further ones are asked for.
  DeviceBatches(const NextMicroBatch& next, at::Device device, bool copy)
      : next_(next), device_(device), copy_(copy) {}

  Result<Batch> next() {
    if (copied_.has_value()) copied_->synchronize();
    MEG_ASSIGN_OR_RETURN(const samples::MicroBatch* batch, next_());
    Batch moved = on_device(*batch, device_, copy_);
    if (!device_.is_cpu()) {
      if (!copied_.has_value()) copied_.emplace(device_.type());
      copied_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    }
    return moved;
  }

 private:
  const NextMicroBatch& next_;
  at::Device device_;
  bool copy_;
  std::optional<c10::Event> copied_;
};

/// Micro-batches on their way through one stage of a pipeline, of which a model without one is the
/// only stage. Mirrors Megatron-LM megatron/core/pipeline_parallel/schedules.py: forward_step,
/// backward_step.
class Stage {
 public:
  Stage(nn::GptModel& model, const NextMicroBatch& next, const parallel::ParallelState& ranks)
      : model_(model),
        links_(*ranks.pipeline()),
        // Backward passes of other stages come when later micro-batches went forward.
        batches_(next, model.options().device, /*copy=*/!links_.is_last()) {}

  parallel::PipelineLinks& links() { return links_; }

  /// Without gradients.
  Status evaluate() {
    const c10::AutoGradMode no_gradients(false);
    MEG_ASSIGN_OR_RETURN(const Batch batch, next_batch());
    if (!links_.is_last()) return pass_on(batch).status();
    MEG_ASSIGN_OR_RETURN(const at::Tensor losses, model_.loss(batch.input, batch.labels));
    losses_.add(masked_loss(batch, losses, batch.loss_mask.sum()));
    return {};
  }

  /// factor: of the micro-batch's loss. On the last stage its backward pass, too.
  Status forward(double factor, StepLoss step_loss) {
    MEG_ASSIGN_OR_RETURN(Batch batch, next_batch());
    at::Tensor& input = batch.input.hidden_states;
    if (input.defined()) input.requires_grad_(true);
    if (!links_.is_last()) {
      MEG_ASSIGN_OR_RETURN(at::Tensor output, pass_on(batch));
      passes_.push_back({.input = input, .output = std::move(output)});
      return {};
    }
    const at::Tensor tokens = batch.loss_mask.sum();
    at::Tensor grad_losses = batch.loss_mask * factor;
    if (step_loss == StepLoss::kMeanOfMicroBatches) grad_losses.div_(tokens.clamp_min(1));
    MEG_ASSIGN_OR_RETURN(const at::Tensor losses,
                         model_.loss_and_gradients(batch.input, batch.labels, grad_losses));
    losses_.add(masked_loss(batch, losses, tokens));
    passes_.push_back({.input = input, .output = {}});
    return {};
  }

  /// Of the oldest micro-batch that went forward.
  Status backward() {
    const Pass pass = std::move(passes_.front());
    passes_.pop_front();
    if (pass.output.defined()) {
      at::Tensor gradient = at::empty_like(pass.output, at::MemoryFormat::Contiguous).detach();
      MEG_RETURN_IF_ERROR(links_.receive_backward(gradient));
      torch::autograd::backward({pass.output}, {std::move(gradient)});
    }
    return links_.is_first() ? Status() : links_.send_backward(pass.input.grad());
  }

  Result<std::vector<MicroBatchLoss>> losses() { return losses_.read(model_); }

 private:
  struct Pass {
    at::Tensor input;   ///< Undefined on the first stage.
    at::Tensor output;  ///< Undefined on the last one.
  };

  /// With the hidden states of the stage before.
  Result<Batch> next_batch() {
    MEG_ASSIGN_OR_RETURN(Batch batch, batches_.next());
    if (links_.is_first()) return batch;
    const nn::TensorParallel& ranks = model_.part().tensor_parallel;
    const int64_t stretches = ranks.splits_sequences() ? ranks.size() : 1;
    batch.input.hidden_states = at::empty(
        {batch.labels.size(0), batch.labels.size(1) / stretches, model_.config().hidden_size},
        batch.loss_mask.options().dtype(model_.options().residual_dtype()));
    MEG_RETURN_IF_ERROR(links_.receive_forward(batch.input.hidden_states));
    return batch;
  }

  Result<at::Tensor> pass_on(const Batch& batch) {
    MEG_ASSIGN_OR_RETURN(at::Tensor output, model_.hidden_states(batch.input));
    MEG_RETURN_IF_ERROR(links_.send_forward(output));
    losses_.add_nothing();
    return output;
  }

  nn::GptModel& model_;
  parallel::PipelineLinks links_;
  DeviceBatches batches_;
  StepLosses losses_;
  std::deque<Pass> passes_;
};

int64_t stages_behind(const parallel::ParallelState& ranks) {
  return ranks.pipeline()->size() - ranks.pipeline()->rank() - 1;
}

/// forward() and backward() of each micro-batch, so that no stage keeps more of them than there are
/// stages behind it, and one. warmup: forward steps of this stage before its first backward step.
/// Mirrors schedules.py: forward_backward_pipelining_without_interleaving.
template <class Forward, class Backward>
Status one_forward_one_backward(int64_t micro_batches, int64_t warmup, Forward forward,
                                Backward backward) {
  for (int64_t i = 0; i < micro_batches + warmup; ++i) {
    if (i < micro_batches) MEG_RETURN_IF_ERROR(libtorch::torch_guard(forward));
    if (i >= warmup) MEG_RETURN_IF_ERROR(libtorch::torch_guard(backward));
  }
  return {};
}

}  // namespace

Result<std::vector<MicroBatchLoss>> forward_backward(nn::GptModel& model, Optimizer& optimizer,
                                                     const NextMicroBatch& next,
                                                     int64_t micro_batches, StepLoss step_loss,
                                                     const parallel::ParallelState& ranks) {
  model.set_training(true);
  const bool per_token = step_loss == StepLoss::kMeanOfTokens;
  MEG_RETURN_IF_ERROR(optimizer.zero_grad(micro_batches == 1 && !per_token));
  const double shares = per_token ? 1 : static_cast<double>(micro_batches);
  Stage stage(model, next, ranks);
  const Status passed = one_forward_one_backward(
      micro_batches, std::min(stages_behind(ranks), micro_batches),
      [&] { return stage.forward(optimizer.loss_scale() / shares, step_loss); },
      [&] { return stage.backward(); });
  MEG_RETURN_IF_ERROR(passed);
  MEG_RETURN_IF_ERROR(stage.links().finish());
  const double copies = per_token ? 1 : ranks.data()->size();
  MEG_RETURN_IF_ERROR(optimizer.reduce_gradients(1 / copies));
  MEG_ASSIGN_OR_RETURN(std::vector<MicroBatchLoss> found, stage.losses());
  MEG_ASSIGN_OR_RETURN(found, of_all_ranks(ranks, found));
  const double tokens = total_loss(found).tokens;
  if (per_token && tokens > 0) MEG_RETURN_IF_ERROR(optimizer.scale_gradients(1 / tokens));
  return found;
}

Result<std::vector<MicroBatchLoss>> forward_only(nn::GptModel& model, const NextMicroBatch& next,
                                                 int64_t micro_batches,
                                                 const parallel::ParallelState& ranks,
                                                 std::optional<int64_t> most) {
  model.set_training(false);
  Stage stage(model, next, ranks);
  for (int64_t i = 0; i < micro_batches; ++i) {
    MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] { return stage.evaluate(); }));
  }
  MEG_RETURN_IF_ERROR(stage.links().finish());
  MEG_ASSIGN_OR_RETURN(std::vector<MicroBatchLoss> found, stage.losses());
  found.resize(static_cast<size_t>(most.value_or(micro_batches)));
  return of_all_ranks(ranks, found);
}

double reported_loss(const std::vector<MicroBatchLoss>& losses, bool over_tokens) {
  if (over_tokens) return total_loss(losses).mean();
  double means = 0;
  for (const MicroBatchLoss& loss : losses) means += loss.mean();
  return losses.empty() ? 0.0 : means / static_cast<double>(losses.size());
}

}  // namespace meg::train
