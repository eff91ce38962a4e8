#include "libmeg/kernels/swiglu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/swiglu_formula.h"

namespace meg::kernels {
namespace {

using test::FloatArray;
using test::normal_values;
using ::testing::FloatNear;
using ::testing::Pointwise;

TEST(SwigluTest, MatchesThePlainFormula) {
  for (const auto type : test::kFloatTypes) {
    for (const auto [rows, columns] : test::kSwigluShapes) {
      const int64_t count = rows * columns;
      const FloatArray input(type, normal_values(2 * count, 3, 1));
      const FloatArray grad_output(type, normal_values(count, 1, 3));
      FloatArray output(type, std::vector<float>(static_cast<size_t>(count), 7));
      FloatArray gradient = input;  // in place
      const int64_t half = rows / 2;
      const SwigluForward forward{type, input.data(), output.data(), rows, columns};
      swiglu_forward_cpu(forward, half, rows);
      swiglu_forward_cpu(forward, 0, half);
      test::expect_swiglu(input, output, columns);
      const SwigluBackward backward{
          type, grad_output.data(), gradient.data(), gradient.data(), rows, columns};
      swiglu_backward_cpu(backward, half, rows);
      swiglu_backward_cpu(backward, 0, half);
      test::expect_swiglu_gradient(grad_output, input, gradient, columns);
    }
  }
}

TEST(SwigluTest, FarEndsAreTheProductAndZero) {
  const FloatArray input(FloatType::kFloat32, {1e4f, -1e4f, 40, -200, 2, 2, 2, 2});
  FloatArray output(FloatType::kFloat32, std::vector<float>(4));
  swiglu_forward_cpu({input.type(), input.data(), output.data(), 1, 4}, 0, 1);
  EXPECT_THAT(output.floats(), Pointwise(FloatNear(1e-30f), std::vector<float>{2e4f, 0, 80, 0}));
  const FloatArray ones(FloatType::kFloat32, std::vector<float>(4, 1));
  FloatArray gradient = input;
  swiglu_backward_cpu({input.type(), ones.data(), input.data(), gradient.data(), 1, 4}, 0, 1);
  EXPECT_THAT(gradient.floats(),
              Pointwise(FloatNear(1e-25f), std::vector<float>{2, 0, 2, 0, 1e4f, 0, 40, 0}));
}

}  // namespace
}  // namespace meg::kernels
