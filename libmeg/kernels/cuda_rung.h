#pragma once

#include <cstdint>

namespace meg::kernels {

/// Versions of a CUDA kernel. kPlain processes one element at a time, kVector 16 bytes at a time;
/// if an array or a row does not begin at a multiple of 16 bytes, kPlain runs instead.
enum class CudaRung : uint8_t { kPlain, kVector };

}  // namespace meg::kernels
