#include "libmeg/nn/operators/internal/attention/attention_kernels.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace meg::nn {
namespace {

constexpr AttentionKernels kWithoutCudnn = {};
constexpr AttentionKernels kAll = {.cudnn = true};
constexpr AttentionKernels kFlashAlone = {.efficient = false, .math = false};
constexpr AttentionKernels kCudnnAlone = {
    .flash = false, .cudnn = true, .efficient = false, .math = false};

AttentionKernels kernels_of(AttentionBackend backend, double attention_dropout, bool training) {
  GptOptions options;
  options.attention_backend = backend;
  options.attention_dropout = attention_dropout;
  return attention_kernels(options, training);
}

TEST(AttentionKernelsTest, InferenceNeverTakesCudnn) {
  EXPECT_EQ(kernels_of(AttentionBackend::kAuto, 0, false), kWithoutCudnn);
  EXPECT_EQ(kernels_of(AttentionBackend::kFused, 0, false), kWithoutCudnn);
  EXPECT_EQ(kernels_of(AttentionBackend::kFlash, 0, false), kFlashAlone);
}

TEST(AttentionKernelsTest, CudnnDropsInSixteenths) {
  for (const double dropout : {0.0, 0.0625, 0.125, 0.5, 0.9375}) {
    EXPECT_EQ(kernels_of(AttentionBackend::kAuto, dropout, true), kAll) << dropout;
    EXPECT_EQ(kernels_of(AttentionBackend::kFused, dropout, true), kCudnnAlone) << dropout;
  }
  for (const double dropout : {0.1, 0.2, 0.06, 0.9}) {
    EXPECT_EQ(kernels_of(AttentionBackend::kAuto, dropout, true), kWithoutCudnn) << dropout;
  }
  EXPECT_EQ(kernels_of(AttentionBackend::kFlash, 0.1, true), kFlashAlone);
}

TEST(AttentionKernelsTest, AChoiceEndsWithItsScope) {
  const at::Context& context = at::globalContext();
  ASSERT_TRUE(context.userEnabledCuDNNSDP() && context.userEnabledMathSDP());
  {
    const AttentionKernelChoice choice(kFlashAlone);
    EXPECT_TRUE(context.userEnabledFlashSDP());
    EXPECT_FALSE(context.userEnabledCuDNNSDP());
    EXPECT_FALSE(context.userEnabledMemEfficientSDP());
    EXPECT_FALSE(context.userEnabledMathSDP());
  }
  EXPECT_TRUE(context.userEnabledCuDNNSDP());
  EXPECT_TRUE(context.userEnabledMemEfficientSDP());
  EXPECT_TRUE(context.userEnabledMathSDP());
}

}  // namespace
}  // namespace meg::nn
