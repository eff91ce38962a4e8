#include <gtest/gtest.h>

#include <vector>

#include "libmeg/nn/kernels/bias_gelu.h"
#include "tests/nn/gelu_formula.h"
#include "tests/nn/require_gpu.h"

namespace meg::nn {
namespace {

#ifdef MEG_HAS_CUDA

using test::expect_gelu;
using test::kColumns;
using test::kRows;
using test::ramp;

TEST(BiasGeluGpuTest, GpuMatchesThePlainFormula) {
  MEG_REQUIRE_GPU();
  const auto input = ramp(kRows * kColumns);
  const auto bias = ramp(kColumns);
  std::vector<float> output(input.size());
  float* values = nullptr;
  float* device_bias = nullptr;
  ASSERT_EQ(cudaMalloc(&values, input.size() * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device_bias, bias.size() * sizeof(float)), cudaSuccess);
  cudaMemcpy(values, input.data(), input.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(device_bias, bias.data(), bias.size() * sizeof(float), cudaMemcpyHostToDevice);
  EXPECT_EQ(bias_gelu_cuda(values, device_bias, values, kRows, kColumns, nullptr), 0);
  cudaMemcpy(output.data(), values, input.size() * sizeof(float), cudaMemcpyDeviceToHost);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudaFree(values);
  cudaFree(device_bias);
  expect_gelu(input, bias, output);
}

#else

TEST(BiasGeluGpuTest, GpuMatchesThePlainFormula) { MEG_REQUIRE_GPU(); }

#endif

}  // namespace
}  // namespace meg::nn
