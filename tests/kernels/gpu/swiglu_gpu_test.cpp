#include <gtest/gtest.h>

#include "libmeg/kernels/swiglu.h"
#include "tests/kernels/gpu/device_array.h"
#include "tests/kernels/gpu/require_gpu.h"
#include "tests/kernels/swiglu_formula.h"

namespace meg::nn {
namespace {

using test::DeviceArray;
using test::FloatArray;
using test::normal_values;

TEST(SwigluGpuTest, MatchesThePlainFormula) {
  MEG_REQUIRE_GPU();
  for (const auto access : {kernels::CudaAccess::kScalar, kernels::CudaAccess::kVectorized}) {
    for (const auto type : test::kFloatTypes) {
      for (const auto [rows, columns] : test::kSwigluShapes) {
        const FloatArray input(type, normal_values(2 * rows * columns, 3, 1));
        const FloatArray grad_output(type, normal_values(rows * columns, 1, 3));
        const DeviceArray device_input(input), output(grad_output), gradients(grad_output);
        ASSERT_EQ(kernels::swiglu_forward_cuda(
                      {type, device_input.get(), output.get(), rows, columns}, nullptr, access),
                  0);
        test::expect_swiglu(input, output.floats(type), columns);
        ASSERT_EQ(kernels::swiglu_backward_cuda({type, gradients.get(), device_input.get(),
                                                 device_input.get(), rows, columns},
                                                nullptr, access),
                  0);
        test::expect_swiglu_gradient(grad_output, input, device_input.floats(type), columns);
        ASSERT_EQ(cudaGetLastError(), cudaSuccess);
      }
    }
  }
}

}  // namespace
}  // namespace meg::nn
