#include "libmeg/base/float_kernels.h"

#include <bit>
#include <cstdint>

#include "libmeg/base/bytes.h"

// The reference for the vectorized kernels, in integers, so that neither the compiler nor the
// rounding mode of the processor can change a bit. torch's `.to(dtype)` is what all of them must
// equal.

namespace meg {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kQuiet = 0x00400000;
// float32's exponent bias minus float16's, in place: 127 - 15 = 112.
constexpr uint32_t kBiasDifference = uint32_t{112} << 23;

uint32_t widened_float16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude < 0x0400) {
    // Zero and subnormal numbers are multiples of 2^-24; float32 holds the product exactly.
    return sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  if (magnitude < 0x7c00) return sign | ((magnitude << 13) + kBiasDifference);
  // The quiet bit is set for NaN only, as vcvtph2ps does; infinity has no payload to keep.
  return sign | kInfinity | (magnitude << 13) | (magnitude > 0x7c00 ? kQuiet : 0);
}

uint16_t narrowed_to_float16(uint32_t bits) {
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half = 0x7c00;
  if (magnitude > kInfinity) {
    // NaN: quiet, with the top of its payload, as vcvtps2ph gives it.
    half = 0x7e00 | ((magnitude >> 13) & 0x03ff);
  } else if (magnitude >= 0x47800000) {  // 65536 and above
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // a normal float16; rounding up may carry into infinity
    const uint32_t rebiased = magnitude - kBiasDifference;
    // Rounds to nearest even: just under half of the last place, and one more where it is odd.
    half = (rebiased + 0x0fff + ((rebiased >> 13) & 1)) >> 13;
  } else if (magnitude < 0x33000000) {  // below 2^-25, half of the least subnormal
    half = 0;
  } else {
    const uint32_t mantissa = (magnitude & 0x007fffff) | 0x00800000;
    const uint32_t shift = 126 - (magnitude >> 23);  // 14 to 24, to multiples of 2^-24
    const uint32_t rest = mantissa & ((uint32_t{1} << shift) - 1);
    const uint32_t middle = uint32_t{1} << (shift - 1);
    half = mantissa >> shift;
    half += static_cast<uint32_t>(rest > middle || (rest == middle && (half & 1) != 0));
  }
  return static_cast<uint16_t>(sign | half);
}

/// Rounding to nearest even in integers: a carry runs from the mantissa into the exponent and,
/// where it must, on to infinity. A NaN is kept out of it, as the carry would make infinity or zero
/// of it.
uint16_t narrowed_to_bfloat16(uint32_t bits) {
  if ((bits & 0x7fffffff) > kInfinity) return static_cast<uint16_t>((bits | kQuiet) >> 16);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void widen_float16(const std::byte* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    store_le(to + 4 * i, widened_float16(load_le<uint16_t>(from + 2 * i)));
  }
}

void widen_bfloat16(const std::byte* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    store_le(to + 4 * i, uint32_t{load_le<uint16_t>(from + 2 * i)} << 16);
  }
}

void narrow_to_float16(const std::byte* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    store_le(to + 2 * i, narrowed_to_float16(load_le<uint32_t>(from + 4 * i)));
  }
}

void narrow_to_bfloat16(const std::byte* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    store_le(to + 2 * i, narrowed_to_bfloat16(load_le<uint32_t>(from + 4 * i)));
  }
}

}  // namespace

const FloatKernels kPortableFloatKernels{widen_float16, widen_bfloat16, narrow_to_float16,
                                         narrow_to_bfloat16};

const FloatKernels& float_kernels(InstructionSet set) {
#ifdef __x86_64__
  if (set == InstructionSet::kAvx512) return kAvx512FloatKernels;
  if (set == InstructionSet::kAvx2) return kAvx2FloatKernels;
#endif
  static_cast<void>(set);
  return kPortableFloatKernels;
}

}  // namespace meg
