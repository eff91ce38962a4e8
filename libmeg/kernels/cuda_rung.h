#pragma once

#include <cstdint>

namespace meg::kernels {

/// Rungs of a CUDA kernel's ladder. kPlain takes an element at a time. kVector takes 16 bytes at a
/// time; where an array or a row does not begin at a multiple of 16 bytes, kPlain runs instead.
enum class CudaRung : uint8_t { kPlain, kVector };

}  // namespace meg::kernels
