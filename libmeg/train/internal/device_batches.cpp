#include "libmeg/train/internal/device_batches.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <span>

namespace meg::train {
namespace {

// The tensor does not own the memory: it is the loader's until the next micro-batch is requested.
template <class T>
at::Tensor borrowed(std::span<T> values, at::IntArrayRef shape, at::ScalarType type) {
  return at::from_blob(values.data(), shape, at::TensorOptions().dtype(type));
}

/// copy: where `batch` is read again while this is in use; else a CPU's tensors are its own memory.
DeviceBatch on_device(const samples::MicroBatch& batch, at::Device device, bool copy) {
  const int64_t b = batch.samples;
  const int64_t s = batch.sequence_length;
  const auto move = [device, copy](const at::Tensor& tensor) {
    return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true, copy);
  };
  DeviceBatch moved;
  moved.input.tokens = move(borrowed(batch.tokens, {b, s}, at::kLong));
  if (!batch.counts_positions) {
    moved.input.position_ids = move(borrowed(batch.position_ids, {b, s}, at::kLong));
  }
  if (!batch.document_lengths.empty()) {
    moved.input.document_lengths = at::tensor(
        at::IntArrayRef(batch.document_lengths.data(), batch.document_lengths.size()), at::kLong);
  }
  moved.labels = move(borrowed(batch.labels, {b, s}, at::kLong));
  moved.loss_mask = move(borrowed(batch.loss_mask, {b, s}, at::kFloat));
  return moved;
}

}  // namespace

Result<DeviceBatch> DeviceBatches::next() {
  // The loader reuses the last micro-batch's memory from next_() on. The host waits for the copies
  // alone, not for what the GPU computes with them.
  if (copied_.has_value()) copied_->synchronize();
  MEG_ASSIGN_OR_RETURN(const samples::MicroBatch* batch, next_());
  DeviceBatch moved = on_device(*batch, device_, copy_);
  if (!device_.is_cpu()) {
    if (!copied_.has_value()) copied_.emplace(device_.type());
    copied_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  return moved;
}

}  // namespace meg::train
