#include "libmeg/train/internal/multi_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>

#include "libmeg/kernels/cpu/parallel_for.h"
#include "libmeg/libtorch/device_copy.h"
#include "libmeg/nn/operators/kernel_call.h"

// One kernel launch over all parameters instead of one per parameter: a model has hundreds of small
// ones, whose launches would cost more than their arithmetic. The kernels find their tensors in a
// list of pointers, which lies on the device.
//
// The list is sent again only where an address changed: with gradients in one array that is once a
// run.

namespace meg::train {
namespace {

/// A list as bytes on a GPU.
template <class T>
at::Tensor on_device(const std::vector<T>& list, at::Device device) {
  const auto bytes = static_cast<int64_t>(list.size() * sizeof(T));
  at::Tensor host = at::empty({bytes}, at::kByte);
  std::memcpy(host.data_ptr(), list.data(), static_cast<size_t>(bytes));
  return libtorch::sent_to(device, host);
}

std::vector<kernels::AdamTensor> without_weights(
    const std::vector<kernels::GradientTensor>& gradients) {
  std::vector<kernels::AdamTensor> tensors(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    tensors[i].gradient = gradients[i].gradient;
    tensors[i].gradient_type = gradients[i].type;
    tensors[i].count = gradients[i].count;
  }
  return tensors;
}

}  // namespace

MultiTensor::MultiTensor(const std::vector<kernels::GradientTensor>& gradients, at::Device device)
    : MultiTensor(without_weights(gradients), device) {}

MultiTensor::MultiTensor(std::vector<kernels::AdamTensor> tensors, at::Device device)
    : adam_(std::move(tensors)), device_(device) {
  for (const kernels::AdamTensor& tensor : adam_) {
    gradients_.push_back({.gradient = tensor.gradient,
                          .type = tensor.gradient_type,
                          .count = tensor.count,
                          .first_chunk = 0});
  }
  const auto count = static_cast<int64_t>(adam_.size());
  chunks_ = kernels::number_chunks(adam_.data(), count);
  kernels::number_chunks(gradients_.data(), count);
  of_chunks_.resize(static_cast<size_t>(chunks_));
  if (device_.is_cpu()) return;
  send_lists();
  device_of_chunks_ = on_device(of_chunks_, device_);
  device_total_ = on_device(std::vector<kernels::GradientStatistics>(1), device_);
}

// Chunks are numbered by sizes, which never change: only pointers and types are sent every time.
void MultiTensor::send_lists() {
  device_adam_ = on_device(adam_, device_);
  device_gradients_ = on_device(gradients_, device_);
}

void MultiTensor::set_gradients(std::span<const kernels::GradientTensor> gradients) {
  bool moved = false;
  for (size_t i = 0; i < adam_.size(); ++i) {
    const auto& [gradient, type, count, first_chunk] = gradients[i];
    moved = moved || gradient != adam_[i].gradient || type != adam_[i].gradient_type;
    adam_[i].gradient = gradients_[i].gradient = gradient;
    adam_[i].gradient_type = gradients_[i].type = type;
  }
  if (moved && !device_.is_cpu()) send_lists();
}

kernels::GradientStatistics MultiTensor::statistics(float scale) {
  const auto count = static_cast<int64_t>(gradients_.size());
  if (device_.is_cpu()) {
    kernels::parallel_for(chunks_, 1, [&](int64_t begin, int64_t end) {
      kernels::gradient_statistics_cpu(gradients_.data(), count, scale, of_chunks_.data(), begin,
                                       end);
    });
    return kernels::total_statistics(of_chunks_.data(), chunks_);
  }
  nn::launch_kernel("gradient_statistics", device_, [&](CUstream_st* stream) {
    return kernels::gradient_statistics_cuda(
        static_cast<const kernels::GradientTensor*>(device_gradients_.const_data_ptr()), count,
        scale, static_cast<kernels::GradientStatistics*>(device_of_chunks_.data_ptr()), chunks_,
        static_cast<kernels::GradientStatistics*>(device_total_.data_ptr()), stream);
  });
  // The step waits here for the GPU: whether it is skipped, and by how much it is clipped, is
  // decided on the host.
  const at::Tensor host = device_total_.cpu();
  kernels::GradientStatistics total;
  std::memcpy(&total, host.const_data_ptr(), sizeof(total));
  return total;
}

// Called after statistics() found a sum that is not finite. The statistics of each chunk are still
// there, so that the gradients need not be read again.
MultiTensor::NotFinite MultiTensor::find_not_finite() {
  if (!device_.is_cpu()) {
    const at::Tensor host = device_of_chunks_.cpu();
    std::memcpy(of_chunks_.data(), host.const_data_ptr(), host.nbytes());
  }
  const auto chunk = std::find_if(
      of_chunks_.begin(), of_chunks_.end(),
      [](const kernels::GradientStatistics& statistics) { return statistics.found_inf(); });
  const auto place =
      kernels::place_of_chunk(gradients_.data(), static_cast<int64_t>(gradients_.size()),
                              std::distance(of_chunks_.begin(), chunk));
  return {.tensor = static_cast<size_t>(place.tensor),
          .has_nan = std::isnan(chunk->sum_of_squares)};
}

void MultiTensor::adam(const kernels::AdamStep& step) {
  const auto count = static_cast<int64_t>(adam_.size());
  if (device_.is_cpu()) {
    kernels::parallel_for(chunks_, 1, [&](int64_t begin, int64_t end) {
      kernels::multi_tensor_adam_cpu(adam_.data(), count, step, begin, end);
    });
    return;
  }
  nn::launch_kernel("multi_tensor_adam", device_, [&](CUstream_st* stream) {
    return kernels::multi_tensor_adam_cuda(
        static_cast<const kernels::AdamTensor*>(device_adam_.const_data_ptr()), count, step,
        chunks_, stream);
  });
}

}  // namespace meg::train
