#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "tests/kernels/float_array.h"

namespace meg::test {

/// The tanh form of GELU in double precision, from its definition.
inline double plain_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

inline double plain_gelu_slope(double x) {
  const double root = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

inline void expect_gelu(const FloatArray& input, const FloatArray& bias, const FloatArray& output) {
  const auto x = input.floats(), b = bias.floats(), y = output.floats();
  for (size_t i = 0; i < x.size(); ++i) {
    const double sum = double{x[i]} + double{b[i % b.size()]};
    const double bound = 1.01 * rounding_error(input.type()) * std::abs(plain_gelu(sum)) +
                         5e-7 * (1 + std::abs(sum));
    ASSERT_NEAR(y[i], plain_gelu(sum), bound) << name_of(input.type()) << " element " << i;
  }
}

inline void expect_gelu_gradient(const FloatArray& grad_output, const FloatArray& input,
                                 const FloatArray& bias, const FloatArray& grad_input) {
  const auto g = grad_output.floats(), x = input.floats(), b = bias.floats();
  const auto result = grad_input.floats();
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = double{g[i]} * plain_gelu_slope(double{x[i]} + double{b[i % b.size()]});
    const double bound = 1.01 * rounding_error(input.type()) * std::abs(wanted) +
                         1e-6 * (1 + std::abs(double{g[i]}));
    ASSERT_NEAR(result[i], wanted, bound) << name_of(input.type()) << " element " << i;
  }
}

}  // namespace meg::test
