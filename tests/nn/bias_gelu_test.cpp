#include "libmeg/nn/kernels/bias_gelu.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/nn/gelu_formula.h"

namespace meg::nn {
namespace {

using test::expect_gelu;
using test::kColumns;
using test::kRows;
using test::ramp;

TEST(BiasGeluTest, CpuMatchesThePlainFormula) {
  const auto input = ramp(kRows * kColumns);
  const auto bias = ramp(kColumns);
  std::vector<float> output(input.size());
  bias_gelu_cpu(input.data(), bias.data(), output.data(), kRows, kColumns);
  expect_gelu(input, bias, output);
}

TEST(BiasGeluTest, CpuWorksInPlace) {
  const auto input = ramp(kRows * kColumns);
  const auto bias = ramp(kColumns);
  std::vector<float> output = input;
  bias_gelu_cpu(output.data(), bias.data(), output.data(), kRows, kColumns);
  expect_gelu(input, bias, output);
}

}  // namespace
}  // namespace meg::nn
