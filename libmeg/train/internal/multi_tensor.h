#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "libmeg/kernels/optimizer/gradient_statistics.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"

namespace meg::train {

/// Runs the multi-tensor kernels over a fixed list of tensors, on their device: on a CPU with
/// LibTorch's threads, on a GPU in its current stream. Throws LibTorch's exceptions.
class MultiTensor {
 public:
  MultiTensor() = default;

  /// The arrays must stay where they are, except gradients (see set_gradients).
  MultiTensor(std::vector<kernels::AdamTensor> tensors, at::Device device);

  /// Takes only gradients, for statistics().
  MultiTensor(const std::vector<kernels::GradientTensor>& gradients, at::Device device);

  /// Sets the places and dtypes of the gradients, one for each tensor.
  void set_gradients(std::span<const kernels::GradientTensor> gradients);

  /// Statistics of all gradients times `scale`. Waits for the GPU.
  kernels::GradientStatistics statistics(float scale);

  /// A tensor whose gradient is not finite, and what the gradient contains.
  struct NotFinite {
    size_t tensor = 0;  ///< Its number in the list.
    bool has_nan = false;
  };

  /// The first such tensor. Call it only after statistics() has found one.
  NotFinite find_not_finite();

  void adam(const kernels::AdamStep& step);

 private:
  void send_lists();

  std::vector<kernels::AdamTensor> adam_;
  std::vector<kernels::GradientTensor> gradients_;
  int64_t chunks_ = 0;
  std::vector<kernels::GradientStatistics> of_chunks_;
  at::Device device_ = at::kCPU;
  at::Tensor device_adam_, device_gradients_, device_of_chunks_, device_total_;  ///< bytes
};

}  // namespace meg::train
