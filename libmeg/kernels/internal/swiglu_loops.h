#pragma once

#include "libmeg/kernels/internal/float_vector.h"

// CpuLoops::swiglu and swiglu_backward, for the instruction set of the file that includes this.

namespace meg::kernels {
namespace {

/// 1 / (1 + e^-x)
inline Floats sigmoid(Floats x) { return 1.0f / (power_of_two(x * -1.4426950408889634f) + 1.0f); }

void swiglu(const float* gate, const float* up, float* output, int64_t count) {
  const auto value = [](Floats g, Floats u) { return g * sigmoid(g) * u; };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store(output + i, value(load(gate + i), load(up + i)));
  }
  const int64_t rest = count - i;
  store_first(output + i, value(load_first(gate + i, rest), load_first(up + i, rest)), rest);
}

void swiglu_backward(const float* grad_output, const float* gate, const float* up, float* grad_gate,
                     float* grad_up, int64_t count) {
  const auto of_gate = [](Floats gradient, Floats g, Floats u, Floats s) {
    return gradient * u * (s * (g * (1.0f - s) + 1.0f));
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats gradient = load(grad_output + i), g = load(gate + i), u = load(up + i);
    const Floats s = sigmoid(g);
    store(grad_gate + i, of_gate(gradient, g, u, s));
    store(grad_up + i, gradient * (g * s));
  }
  const int64_t rest = count - i;
  const Floats gradient = load_first(grad_output + i, rest), g = load_first(gate + i, rest);
  const Floats u = load_first(up + i, rest), s = sigmoid(g);
  store_first(grad_gate + i, of_gate(gradient, g, u, s), rest);
  store_first(grad_up + i, gradient * (g * s), rest);
}

}  // namespace
}  // namespace meg::kernels
