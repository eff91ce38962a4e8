#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "libmeg/base/dtype.h"

namespace meg::libtorch {

/// The DType of a floating-point tensor that models train with: fp32, fp16 or bf16.
inline DType dtype_of_tensor(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kHalf) return DType::kFloat16;
  if (tensor.scalar_type() == at::kBFloat16) return DType::kBFloat16;
  return DType::kFloat32;
}

/// The memory of a dense tensor on the CPU, which must outlive the span.
inline std::span<std::byte> tensor_bytes(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

inline std::vector<int64_t> tensor_shape(const at::Tensor& tensor) { return tensor.sizes().vec(); }

}  // namespace meg::libtorch
