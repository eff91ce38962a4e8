#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/nn/gpt_model.h"

namespace meg::train {

/// One dense piece of memory with a tensor in the shape of each parameter, so that zeroing and
/// kernels over all of them touch one array. LibTorch's exceptions fly.
class FlatBuffer {
 public:
  FlatBuffer() = default;

  /// Zeros of `dtype` on the device of the parameters.
  FlatBuffer(std::span<const nn::GptParameter> parameters, at::ScalarType dtype);

  bool defined() const { return flat_.defined(); }

  const at::Tensor& flat() const { return flat_; }

  /// In the order of the parameters.
  const std::vector<at::Tensor>& views() const { return views_; }

 private:
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
};

}  // namespace meg::train
