#include "libmeg/train/internal/train_step.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"

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

Batch on_device(const samples::MicroBatch& batch, at::Device device) {
  const int64_t b = batch.samples;
  const int64_t s = batch.sequence_length;
  const auto move = [device](const at::Tensor& tensor) {
    return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true, /*copy=*/false);
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

/// factor: of the micro-batch's loss.
Result<MaskedLoss> forward_backward(nn::GptModel& model, const Batch& batch, double factor,
                                    StepLoss step_loss) {
  const at::Tensor tokens = batch.loss_mask.sum();
  at::Tensor grad_losses = batch.loss_mask * factor;
  if (step_loss == StepLoss::kMeanOfMicroBatches) grad_losses.div_(tokens.clamp_min(1));
  MEG_ASSIGN_OR_RETURN(const at::Tensor losses,
                       model.loss_and_gradients(batch.input, batch.labels, grad_losses));
  return masked_loss(batch, losses, tokens);
}

MicroBatchLoss total_loss(const std::vector<MicroBatchLoss>& losses) {
  MicroBatchLoss total;
  for (const MicroBatchLoss& loss : losses) {
    total.loss_sum += loss.loss_sum;
    total.tokens += loss.tokens;
  }
  return total;
}

/// The losses of all data-parallel ranks, as many of each.
Result<std::vector<MicroBatchLoss>> of_all_ranks(const parallel::ParallelState& ranks,
                                                 const std::vector<MicroBatchLoss>& losses) {
  if (ranks.data()->size() == 1) return losses;
  std::vector<double> figures;
  for (const MicroBatchLoss& loss : losses) {
    figures.insert(figures.end(), {loss.loss_sum, loss.tokens});
  }
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

  Result<std::vector<MicroBatchLoss>> read(const nn::GptModel& model) {
    std::vector<MicroBatchLoss> losses;
    if (figures_.empty()) return losses;
    MEG_RETURN_IF_ERROR(libtorch::torch_guard([&]() -> Status {
      figures_.push_back(model.label_error()[0].to(at::kDouble));
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
  DeviceBatches(const NextMicroBatch& next, at::Device device) : next_(next), device_(device) {}

  Result<Batch> next() {
    if (copied_.has_value()) copied_->synchronize();
    MEG_ASSIGN_OR_RETURN(const samples::MicroBatch* batch, next_());
    Batch moved = on_device(*batch, device_);
    if (!device_.is_cpu()) {
      if (!copied_.has_value()) copied_.emplace(device_.type());
      copied_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    }
    return moved;
  }

 private:
  const NextMicroBatch& next_;
  at::Device device_;
  std::optional<c10::Event> copied_;
};

}  // namespace

Result<std::vector<MicroBatchLoss>> forward_backward(nn::GptModel& model, Optimizer& optimizer,
                                                     const NextMicroBatch& next,
                                                     int64_t micro_batches, StepLoss step_loss,
                                                     const parallel::ParallelState& ranks) {
  model.set_training(true);
  MEG_RETURN_IF_ERROR(optimizer.zero_grad());
  const bool per_token = step_loss == StepLoss::kMeanOfTokens;
  StepLosses losses;
  DeviceBatches batches(next, model.options().device);
  for (int64_t i = 0; i < micro_batches; ++i) {
    MEG_RETURN_IF_ERROR(libtorch::torch_guard([&]() -> Status {
      MEG_ASSIGN_OR_RETURN(const Batch batch, batches.next());
      const double shares = per_token ? 1 : static_cast<double>(micro_batches);
      MEG_ASSIGN_OR_RETURN(
          const MaskedLoss loss,
          forward_backward(model, batch, optimizer.loss_scale() / shares, step_loss));
      losses.add(loss);
      return {};
    }));
    MEG_RETURN_IF_ERROR(optimizer.accumulate_gradients(micro_batches == 1 && !per_token));
  }
  const double copies = per_token ? 1 : ranks.data()->size();
  MEG_RETURN_IF_ERROR(optimizer.reduce_gradients(1 / copies));
  MEG_ASSIGN_OR_RETURN(std::vector<MicroBatchLoss> found, losses.read(model));
  MEG_ASSIGN_OR_RETURN(found, of_all_ranks(ranks, found));
  const double tokens = total_loss(found).tokens;
  if (per_token && tokens > 0) MEG_RETURN_IF_ERROR(optimizer.scale_gradients(1 / tokens));
  return found;
}

Result<std::vector<MicroBatchLoss>> forward_only(nn::GptModel& model, const NextMicroBatch& next,
                                                 int64_t micro_batches,
                                                 const parallel::ParallelState& ranks) {
  model.set_training(false);
  StepLosses losses;
  DeviceBatches batches(next, model.options().device);
  for (int64_t i = 0; i < micro_batches; ++i) {
    MEG_RETURN_IF_ERROR(libtorch::torch_guard([&]() -> Status {
      const c10::AutoGradMode no_gradients(false);
      MEG_ASSIGN_OR_RETURN(const Batch batch, batches.next());
      MEG_ASSIGN_OR_RETURN(const at::Tensor found, model.loss(batch.input, batch.labels));
      losses.add(masked_loss(batch, found, batch.loss_mask.sum()));
      return {};
    }));
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<MicroBatchLoss> found, losses.read(model));
  return of_all_ranks(ranks, found);
}

double reported_loss(const std::vector<MicroBatchLoss>& losses, bool over_tokens) {
  if (over_tokens) return total_loss(losses).mean();
  double means = 0;
  for (const MicroBatchLoss& loss : losses) means += loss.mean();
  return losses.empty() ? 0.0 : means / static_cast<double>(losses.size());
}

}  // namespace meg::train
