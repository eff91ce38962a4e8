#include <gtest/gtest.h>

#include "libmeg/kernels/bias_gelu.h"
#include "tests/kernels/gelu_formula.h"
#include "tests/kernels/gpu/device_array.h"
#include "tests/kernels/gpu/require_gpu.h"

namespace meg::nn {
namespace {

using test::DeviceArray;
using test::FloatArray;
using test::kFloatTypes;
using test::normal_values;

constexpr kernels::CudaAccess kAccesses[] = {kernels::CudaAccess::kScalar,
                                             kernels::CudaAccess::kVectorized};

struct Shape {
  int64_t rows;
  int64_t columns;
};

constexpr Shape kShapes[] = {{37, 129}, {1, 1}, {3, 8}, {5, 3072}, {513, 1024}, {0, 8}, {8, 0}};

TEST(BiasGeluGpuTest, ForwardMatchesThePlainFormula) {
  MEG_REQUIRE_GPU();
  for (const auto access : kAccesses) {
    for (const auto type : kFloatTypes) {
      for (const auto [rows, columns] : kShapes) {
        const FloatArray input(type, normal_values(rows * columns, 3, 1));
        const FloatArray bias(type, normal_values(columns, 1, 2));
        const DeviceArray values(input), device_bias(bias);  // in place
        ASSERT_EQ(kernels::bias_gelu_forward_cuda(
                      {type, values.get(), device_bias.get(), values.get(), rows, columns}, nullptr,
                      access),
                  0);
        test::expect_gelu(input, bias, values.floats(type));
        ASSERT_EQ(cudaGetLastError(), cudaSuccess);
      }
    }
  }
}

TEST(BiasGeluGpuTest, BackwardMatchesThePlainFormula) {
  MEG_REQUIRE_GPU();
  for (const auto access : kAccesses) {
    for (const auto type : kFloatTypes) {
      for (const auto [rows, columns] : kShapes) {
        const FloatArray grad_output(type, normal_values(rows * columns, 1, 3));
        const FloatArray input(type, normal_values(rows * columns, 3, 1));
        const FloatArray bias(type, normal_values(columns, 1, 2));
        const DeviceArray gradients(grad_output), device_input(input), device_bias(bias);
        ASSERT_EQ(
            kernels::bias_gelu_backward_cuda({type, gradients.get(), device_input.get(),
                                              device_bias.get(), gradients.get(), rows, columns},
                                             nullptr, access),
            0);
        test::expect_gelu_gradient(grad_output, input, bias, gradients.floats(type));
        ASSERT_EQ(cudaGetLastError(), cudaSuccess);
      }
    }
  }
}

}  // namespace
}  // namespace meg::nn
