#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

// Stands for CUDA's header of this name where kernels are compiled for the host.

struct __half {
  uint16_t bits;
};

inline float __half2float(__half value) {
  const int exponent = value.bits >> 10 & 31;
  const int mantissa = value.bits & 1023;
  float size = std::ldexp(static_cast<float>(mantissa), -24);  // too small for an exponent
  if (exponent == 31) {
    size = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent > 0) {
    size = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return (value.bits & 0x8000) != 0 ? -size : size;
}

/// Rounds to nearest, ties to even.
inline __half __float2half_rn(float value) {
  if (std::isnan(value)) return {0x7fff};
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::min(std::abs(value), 65536.0f);  // which rounds to infinity
  const int exponent = std::max(std::ilogb(size), -14);
  // Count in units of the last place; 1024 and more carries into the exponent's bits, as it should.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return {static_cast<uint16_t>(sign | (((exponent + 14) << 10) + units))};
}
