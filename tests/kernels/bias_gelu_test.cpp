#include "libmeg/kernels/bias_gelu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/gelu_formula.h"

namespace meg::nn {
namespace {

using test::FloatArray;
using test::kFloatTypes;
using test::normal_values;
using ::testing::FloatNear;
using ::testing::Pointwise;

struct Shape {
  int64_t rows;
  int64_t columns;
};

constexpr Shape kShapes[] = {{37, 129}, {1, 1}, {3, 5}, {2, 1024}, {2, 3077}, {0, 7}, {7, 0}};

TEST(BiasGeluTest, ForwardMatchesThePlainFormula) {
  for (const auto type : kFloatTypes) {
    for (const auto [rows, columns] : kShapes) {
      const FloatArray input(type, normal_values(rows * columns, 3, 1));
      const FloatArray bias(type, normal_values(columns, 1, 2));
      FloatArray output(type, std::vector<float>(static_cast<size_t>(rows * columns), 7));
      kernels::bias_gelu_forward_cpu(
          {type, input.data(), bias.data(), output.data(), rows, columns}, 0, rows);
      test::expect_gelu(input, bias, output);
    }
  }
}

TEST(BiasGeluTest, BackwardMatchesThePlainFormula) {
  for (const auto type : kFloatTypes) {
    for (const auto [rows, columns] : kShapes) {
      const FloatArray grad_output(type, normal_values(rows * columns, 1, 3));
      const FloatArray input(type, normal_values(rows * columns, 3, 1));
      const FloatArray bias(type, normal_values(columns, 1, 2));
      FloatArray grad_input(type, std::vector<float>(static_cast<size_t>(rows * columns), 7));
      kernels::bias_gelu_backward_cpu(
          {type, grad_output.data(), input.data(), bias.data(), grad_input.data(), rows, columns},
          0, rows);
      test::expect_gelu_gradient(grad_output, input, bias, grad_input);
    }
  }
}

TEST(BiasGeluTest, FarEndsAreTheIdentityAndZero) {
  const FloatArray input(kernels::FloatType::kFloat32, {1e4f, -1e4f, 40, -40, 0, -0.0f});
  const FloatArray bias(kernels::FloatType::kFloat32, std::vector<float>(6, 0));
  FloatArray output = input;
  FloatArray slope(kernels::FloatType::kFloat32, std::vector<float>(6, 1));
  kernels::bias_gelu_forward_cpu({input.type(), input.data(), bias.data(), output.data(), 1, 6}, 0,
                                 1);
  EXPECT_THAT(output.floats(),
              Pointwise(FloatNear(1e-30f), std::vector<float>{1e4f, 0, 40, 0, 0, 0}));
  kernels::bias_gelu_backward_cpu(
      {input.type(), slope.data(), input.data(), bias.data(), slope.data(), 1, 6}, 0, 1);
  EXPECT_THAT(slope.floats(),
              Pointwise(FloatNear(1e-25f), std::vector<float>{1, 0, 1, 0, 0.5, 0.5}));
}

TEST(BiasGeluTest, WorksInPlaceAndOnPartsOfTheRows) {
  constexpr int64_t kRows = 9, kColumns = 2051;
  for (const auto type : kFloatTypes) {
    const FloatArray input(type, normal_values(kRows * kColumns, 3, 1));
    const FloatArray bias(type, normal_values(kColumns, 1, 2));
    FloatArray whole = input, parts = input;
    kernels::bias_gelu_forward_cpu({type, input.data(), bias.data(), whole.data(), kRows, kColumns},
                                   0, kRows);
    const kernels::BiasGeluForward in_place{type,         parts.data(), bias.data(),
                                            parts.data(), kRows,        kColumns};
    kernels::bias_gelu_forward_cpu(in_place, 4, kRows);
    kernels::bias_gelu_forward_cpu(in_place, 0, 4);
    EXPECT_EQ(whole.floats(), parts.floats());
  }
}

}  // namespace
}  // namespace meg::nn
