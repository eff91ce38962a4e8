#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/float_array.h"

namespace meg::test {

/// Logits, labels and the incoming gradients of one call.
struct CrossEntropyCase {
  int64_t rows;
  int64_t columns;
  FloatArray logits;
  std::vector<int64_t> labels;
  std::vector<float> grad_losses;
};

inline CrossEntropyCase cross_entropy_case(kernels::FloatType type, int64_t rows, int64_t columns) {
  CrossEntropyCase made{rows,
                        columns,
                        FloatArray(type, normal_values(rows * columns, 4, 5)),
                        {},
                        normal_values(rows, 1, 6)};
  for (int64_t row = 0; row < rows; ++row) {
    made.labels.push_back(row == 0 ? columns - 1 : row * 7919 % columns);
    if (row % 5 == 3) made.grad_losses[static_cast<size_t>(row)] = 0;  // masked
  }
  return made;
}

/// log(sum of e^logit) of a row, in double precision.
inline double plain_log_sum_exp(const float* logits, int64_t columns) {
  const double maximum = *std::max_element(logits, logits + columns);
  double sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += std::exp(double{logits[i]} - maximum);
  return maximum + std::log(sum);
}

/// tolerance: of each loss, times 1 + loss.
inline void expect_losses(const CrossEntropyCase& wanted, const std::vector<float>& losses,
                          double tolerance = 2e-7) {
  const auto logits = wanted.logits.floats();
  for (int64_t row = 0; row < wanted.rows; ++row) {
    const float* of_row = logits.data() + row * wanted.columns;
    const auto at = static_cast<size_t>(row);
    const double loss =
        plain_log_sum_exp(of_row, wanted.columns) - double{of_row[wanted.labels[at]]};
    ASSERT_NEAR(losses[at], loss, tolerance * (1 + std::abs(loss)))
        << name_of(wanted.logits.type()) << " row " << row << " of " << wanted.columns;
  }
}

inline void expect_gradients(const CrossEntropyCase& wanted, const FloatArray& gradients) {
  const auto logits = wanted.logits.floats();
  const auto found = gradients.floats();
  for (int64_t row = 0; row < wanted.rows; ++row) {
    const float* of_row = logits.data() + row * wanted.columns;
    const auto at = static_cast<size_t>(row);
    const double log_sum_exp = plain_log_sum_exp(of_row, wanted.columns);
    for (int64_t column = 0; column < wanted.columns; ++column) {
      const double softmax = std::exp(double{of_row[column]} - log_sum_exp);
      const double scale = wanted.grad_losses[at];
      const double gradient = (softmax - (column == wanted.labels[at] ? 1 : 0)) * scale;
      // logit - maximum, up to 40 here, is rounded; fp16 has no more digits below 2^-14.
      const double bound = (1.01 * rounding_error(gradients.type()) + 3e-6) * std::abs(gradient) +
                           (gradients.type() == kernels::FloatType::kFloat16 ? 0x1p-25 : 1e-37) +
                           (column == wanted.labels[at] ? 1e-7 * std::abs(scale) : 0);
      ASSERT_NEAR(found[static_cast<size_t>(row * wanted.columns + column)], gradient, bound)
          << name_of(gradients.type()) << " row " << row << " column " << column;
    }
  }
}

}  // namespace meg::test
