#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/float_array.h"

namespace meg::test {

struct SwigluShape {
  int64_t rows;
  int64_t columns;
};

inline constexpr SwigluShape kSwigluShapes[] = {{37, 129}, {1, 1},    {3, 8}, {2, 1024},
                                                {2, 3077}, {5, 2736}, {0, 8}, {8, 0}};

inline double plain_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Computes in double precision, from the definition.
inline void expect_swiglu(const FloatArray& input, const FloatArray& output, int64_t columns) {
  const auto x = input.floats(), y = output.floats();
  ASSERT_EQ(x.size(), 2 * y.size());
  for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
    const int64_t place = i / columns * columns + i;
    const double gate = x[static_cast<size_t>(place)];
    const double up = x[static_cast<size_t>(place + columns)];
    const double wanted = gate * plain_sigmoid(gate) * up;
    ASSERT_NEAR(
        y[static_cast<size_t>(i)], wanted,
        1.01 * rounding_error(input.type()) * std::abs(wanted) + 5e-7 * (1 + std::abs(gate * up)))
        << name_of(input.type()) << " element " << i;
  }
}

inline void expect_swiglu_gradient(const FloatArray& grad_output, const FloatArray& input,
                                   const FloatArray& grad_input, int64_t columns) {
  const auto d = grad_output.floats(), x = input.floats(), found = grad_input.floats();
  for (int64_t i = 0; i < static_cast<int64_t>(d.size()); ++i) {
    const int64_t place = i / columns * columns + i;
    const double gate = x[static_cast<size_t>(place)];
    const double up = x[static_cast<size_t>(place + columns)];
    const double s = plain_sigmoid(gate), gradient = d[static_cast<size_t>(i)];
    const double wanted[] = {gradient * up * s * (1 + gate * (1 - s)), gradient * gate * s};
    for (int64_t part = 0; part < 2; ++part) {
      ASSERT_NEAR(found[static_cast<size_t>(place + part * columns)], wanted[part],
                  1.01 * rounding_error(input.type()) * std::abs(wanted[part]) +
                      1e-6 * (1 + std::abs(gradient * (1 + std::abs(gate)) * (1 + std::abs(up)))))
          << name_of(input.type()) << " element " << i << ", part " << part;
    }
  }
}

}  // namespace meg::test
