#pragma once

#include <cstdint>

namespace meg::kernels {

/// How a CUDA kernel accesses memory: one element at a time, or 16 bytes at a time. If an array or
/// a row does not begin at a multiple of 16 bytes, kScalar is taken instead.
enum class CudaAccess : uint8_t { kScalar, kVectorized };

}  // namespace meg::kernels
