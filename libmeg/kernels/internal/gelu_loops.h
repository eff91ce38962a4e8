#pragma once

#include "libmeg/kernels/internal/float_vector.h"

// CpuLoops::bias_gelu and bias_gelu_backward, for the instruction set of the file that includes
// this.

namespace meg::kernels {
namespace {

// 0.5 * (1 + tanh(u)) = 1 / (1 + e^(-2u)), which loses no digits where tanh is near -1.

/// e^(-2u) with u = 0.79788456 * x * (1 + 0.044715 * x * x), as a power of two
inline Floats gelu_exponential(Floats x) {
  constexpr double kLinear = -2 * 0.79788456 * 1.4426950408889634;
  constexpr double kCubic = kLinear * 0.044715;
  return power_of_two(x * (x * x * static_cast<float>(kCubic) + static_cast<float>(kLinear)));
}

inline Floats gelu(Floats x) { return x / (gelu_exponential(x) + 1.0f); }

inline Floats gelu_slope(Floats x) {
  const Floats e = gelu_exponential(x);
  const Floats gate = 1.0f / (e + 1.0f);
  const Floats inner_slope =
      x * x * 0.1070322243f + 0.79788456f;  // 0.1070... = 3 * 0.79... * 0.04...
  return x * 2.0f * (gate * (e * gate)) * inner_slope + gate;
}

void bias_gelu(const float* input, const float* bias, float* output, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store(output + i, gelu(load(input + i) + load(bias + i)));
  }
  const int64_t rest = count - i;
  store_first(output + i, gelu(load_first(input + i, rest) + load_first(bias + i, rest)), rest);
}

void bias_gelu_backward(const float* grad_output, const float* input, const float* bias,
                        float* grad_input, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats slope = gelu_slope(load(input + i) + load(bias + i));
    store(grad_input + i, slope * load(grad_output + i));
  }
  const int64_t rest = count - i;
  const Floats slope = gelu_slope(load_first(input + i, rest) + load_first(bias + i, rest));
  store_first(grad_input + i, slope * load_first(grad_output + i, rest), rest);
}

}  // namespace
}  // namespace meg::kernels
