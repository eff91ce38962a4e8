#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

#include "libmeg/nn/gpt_model.h"
#include "libmeg/train/internal/train_step.h"

namespace meg::train {

/// A micro-batch on the model's device.
struct DeviceBatch {
  nn::GptInput input;
  at::Tensor labels;     // [b, s] int64
  at::Tensor loss_mask;  // [b, s] fp32
};

/// Micro-batches on the model's device. Copies to a GPU continue while the caller queues work, so
/// the next micro-batch is requested (which releases the memory of the last one) only when they are
/// done; the GPU is then still busy with the last one's forward and backward passes. Throws
/// LibTorch's exceptions.
class DeviceBatches {
 public:
  /// copy: batches stay valid while further ones are requested.
  DeviceBatches(const NextMicroBatch& next, at::Device device, bool copy)
      : next_(next), device_(device), copy_(copy) {}

  Result<DeviceBatch> next();

 private:
  const NextMicroBatch& next_;
  at::Device device_;
  bool copy_;
  std::optional<c10::Event> copied_;
};

}  // namespace meg::train
