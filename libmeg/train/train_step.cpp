#include "libmeg/train/train_step.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "libmeg/parallel/torch_guard.h"

namespace meg::train {
namespace {

using parallel::torch_guard;

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

Batch on_device(const MicroBatch& batch, at::Device device) {
  const int64_t b = batch.samples;
  const int64_t s = batch.sequence_length;
  const auto move = [device](const at::Tensor& tensor) {
    return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true, /*copy=*/false);
  };
  Batch moved;
  moved.input.tokens = move(borrowed(batch.tokens, {b, s}, at::kLong));
  moved.input.position_ids = move(borrowed(batch.position_ids, {b, s}, at::kLong));
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

Result<MaskedLoss> masked_loss(nn::GptModel& model, const Batch& batch) {
  MEG_ASSIGN_OR_RETURN(const at::Tensor losses, model.loss(batch.input, batch.labels));
  return MaskedLoss{.sum = at::sum(losses * batch.loss_mask), .tokens = batch.loss_mask.sum()};
}

MicroBatchLoss kept(const MaskedLoss& loss) {
  return {.loss_sum = loss.sum.item<double>(), .tokens = loss.tokens.item<double>()};
}

}  // namespace

Result<std::vector<MicroBatchLoss>> forward_backward(nn::GptModel& model, Optimizer& optimizer,
                                                     const NextMicroBatch& next,
                                                     int64_t micro_batches) {
  model.set_training(true);
  MEG_RETURN_IF_ERROR(optimizer.zero_grad());
  std::vector<MicroBatchLoss> losses;
  for (int64_t i = 0; i < micro_batches; ++i) {
    MEG_ASSIGN_OR_RETURN(const MicroBatch* micro_batch, next());
    MEG_RETURN_IF_ERROR(torch_guard([&]() -> Status {
      const Batch batch = on_device(*micro_batch, model.options().device);
      MEG_ASSIGN_OR_RETURN(const MaskedLoss loss, masked_loss(model, batch));
      const double scale = optimizer.loss_scale() / static_cast<double>(micro_batches);
      torch::autograd::backward({loss.sum / loss.tokens.clamp_min(1) * scale}, {});
      losses.push_back(kept(loss));
      return {};
    }));
    MEG_RETURN_IF_ERROR(optimizer.gather_gradients());
  }
  return losses;
}

Result<std::vector<MicroBatchLoss>> forward_only(nn::GptModel& model, const NextMicroBatch& next,
                                                 int64_t micro_batches) {
  model.set_training(false);
  std::vector<MicroBatchLoss> losses;
  for (int64_t i = 0; i < micro_batches; ++i) {
    MEG_ASSIGN_OR_RETURN(const MicroBatch* micro_batch, next());
    MEG_RETURN_IF_ERROR(torch_guard([&]() -> Status {
      const c10::AutoGradMode no_gradients(false);
      const Batch batch = on_device(*micro_batch, model.options().device);
      MEG_ASSIGN_OR_RETURN(const MaskedLoss loss, masked_loss(model, batch));
      losses.push_back(kept(loss));
      return {};
    }));
  }
  return losses;
}

double reported_loss(const std::vector<MicroBatchLoss>& losses, bool over_tokens) {
  MicroBatchLoss total;
  double means = 0;
  for (const MicroBatchLoss& loss : losses) {
    total.loss_sum += loss.loss_sum;
    total.tokens += loss.tokens;
    means += loss.mean();
  }
  if (over_tokens) return total.mean();
  return losses.empty() ? 0.0 : means / static_cast<double>(losses.size());
}

}  // namespace meg::train
