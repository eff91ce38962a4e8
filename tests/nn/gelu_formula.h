#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace meg::test {

inline constexpr int64_t kRows = 37;
inline constexpr int64_t kColumns = 129;

/// Values from -6 to 6, each row shifted against the last.
inline std::vector<float> ramp(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(static_cast<double>(i * 7919 % 1201) / 100.0 - 6.0));
  }
  return values;
}

/// The tanh form of GELU in double precision, from its definition.
inline double plain_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

inline void expect_gelu(const std::vector<float>& input, const std::vector<float>& bias,
                        const std::vector<float>& output) {
  for (size_t i = 0; i < input.size(); ++i) {
    const double x = double{input[i]} + double{bias[i % bias.size()]};
    ASSERT_NEAR(output[i], plain_gelu(x), 2e-6 * (1 + std::abs(x))) << "element " << i;
  }
}

}  // namespace meg::test
