#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "libmeg/kernels/optimizer/gradient_statistics.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"

namespace meg::train {

/// The multi-tensor kernels over one fixed list of tensors, on the device where they lie: on CPUs
/// by LibTorch's threads, on a GPU in its current stream. LibTorch's exceptions fly.
class MultiTensor {
 public:
  MultiTensor() = default;

  /// The arrays must stay where they are, but for gradients (see set_gradients).
  MultiTensor(std::vector<kernels::AdamTensor> tensors, at::Device device);

  /// Gradients alone: for statistics().
  MultiTensor(const std::vector<kernels::GradientTensor>& gradients, at::Device device);

  /// Where the gradients of the tensors are from now on, and their types; as many as these.
  void set_gradients(std::span<const kernels::GradientTensor> gradients);

  /// Of all gradients times `scale`. On a GPU this waits for it.
  kernels::GradientStatistics statistics(float scale);

  /// A tensor whose gradient is not finite, and what is in it.
  struct NotFinite {
    size_t tensor = 0;  ///< Its number in the list.
    bool has_nan = false;
  };

  /// The first such one. Only after statistics() found one.
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
