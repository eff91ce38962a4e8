// A build without CUDA, whatever this one is: its stand-ins are compiled into this program.

#include <gtest/gtest.h>

#include "libmeg/kernels/attention/cached_attention.h"
#include "libmeg/kernels/attention/rotary_heads.h"
#include "libmeg/kernels/bias_gelu.h"
#include "libmeg/kernels/cuda_device.h"
#include "libmeg/kernels/dropout_add_norm.h"
#include "libmeg/kernels/embedding_backward.h"
#include "libmeg/kernels/optimizer/gradient_statistics.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"
#include "libmeg/kernels/softmax_cross_entropy.h"
#include "libmeg/kernels/swiglu.h"

namespace meg::kernels {
namespace {

TEST(NoCudaTest, SaysWhyThereIsNoGpu) {
  EXPECT_STREQ(cuda_problem(), "libmeg was built without CUDA kernels (no nvcc)");
}

TEST(NoCudaTest, RefusesEveryLaunch) {
  EXPECT_EQ(bias_gelu_forward_cuda({}, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(bias_gelu_backward_cuda({}, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(cached_attention_cuda({}, 0, nullptr, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(dropout_add_norm_forward_cuda({}, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(dropout_add_norm_backward_cuda({}, nullptr, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(embedding_backward_cuda({}, nullptr, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(gradient_statistics_cuda(nullptr, 0, 1, nullptr, 0, nullptr, nullptr),
            kBuiltWithoutCuda);
  EXPECT_EQ(multi_tensor_adam_cuda(nullptr, 0, {}, 0, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(rotary_heads_cuda({}, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(swiglu_forward_cuda({}, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(swiglu_backward_cuda({}, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(softmax_cross_entropy_forward_cuda({}, nullptr, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(softmax_cross_entropy_backward_cuda({}, nullptr), kBuiltWithoutCuda);
  EXPECT_EQ(softmax_cross_entropy_forward_backward_cuda({}, nullptr, nullptr, nullptr, nullptr),
            kBuiltWithoutCuda);
}

}  // namespace
}  // namespace meg::kernels
