// The gradient that cuDNN writes into one array is the one that LibTorch gets from it in three.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "libmeg/libtorch/cuda_backend.h"
#include "libmeg/nn/operators/internal/attention/attention_kernels.h"
#include "libmeg/nn/operators/internal/attention/cudnn_attention.h"
#include "tests/kernels/gpu/require_gpu.h"

namespace meg::nn {
namespace {

constexpr int64_t kRows = 2, kTokens = 96, kHeads = 3, kChannels = 64;
constexpr double kScale = 0.125;

struct Pass {
  at::Tensor output, grad_mixed;
};

at::Tensor random_mixed(at::ScalarType type) {
  at::manual_seed(7);
  return at::randn({kRows, kTokens, kHeads * 3 * kChannels}, at::dtype(type).device(at::kCUDA))
      .set_requires_grad(true);
}

/// Forward and back, with the same random numbers each time.
template <class Attention>
Pass pass(at::ScalarType type, Attention attention) {
  const at::Tensor mixed = random_mixed(type);
  const at::Tensor output = attention(mixed);
  if (!output.defined()) return {};
  const at::Tensor weights = at::linspace(-1, 1, output.numel(), output.options()).view_as(output);
  (output * weights).sum().backward();
  return {output.detach(), mixed.grad()};
}

at::Tensor by_libtorch(const at::Tensor& mixed, double dropout) {
  auto heads = mixed.view({kRows, kTokens, kHeads, 3, kChannels}).unbind(3);
  for (at::Tensor& one : heads) one = one.transpose(1, 2);
  return at::scaled_dot_product_attention(heads[0], heads[1], heads[2], {}, dropout,
                                          /*is_causal=*/true, kScale)
      .transpose(1, 2)
      .flatten(2);
}

TEST(CudnnAttentionGpuTest, GradientIsLibTorchs) {
  MEG_REQUIRE_GPU();
  ASSERT_TRUE(libtorch::load_cuda_backend().ok());
  const AttentionKernelChoice choice(
      {.flash = false, .cudnn = true, .efficient = false, .math = false});
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const double dropout : {0.0, 0.125, 0.5}) {
      const Pass ours = pass(type, [&](const at::Tensor& mixed) {
        return cudnn_attention(mixed, kChannels, kScale, dropout);
      });
      if (!ours.output.defined()) GTEST_SKIP() << "cuDNN has no such attention for this GPU";
      const Pass expected =
          pass(type, [&](const at::Tensor& mixed) { return by_libtorch(mixed, dropout); });
      EXPECT_TRUE(at::equal(ours.output, expected.output)) << "dropout " << dropout;
      EXPECT_TRUE(at::allclose(ours.grad_mixed.to(at::kFloat), expected.grad_mixed.to(at::kFloat),
                               2e-2, 2e-2))
          << "dropout " << dropout;
    }
  }
}

TEST(CudnnAttentionGpuTest, LeavesWhatItIsNotFor) {
  const at::Tensor mixed = at::zeros({1, 8, 3 * 16}, at::kBFloat16);
  EXPECT_FALSE(cudnn_attention(mixed, 16, 1, 0).defined()) << "on a CPU";
  MEG_REQUIRE_GPU();
  ASSERT_TRUE(libtorch::load_cuda_backend().ok());
  EXPECT_FALSE(cudnn_attention(random_mixed(at::kFloat), kChannels, kScale, 0).defined());
  const at::Tensor without_gradient = random_mixed(at::kHalf).detach();
  EXPECT_FALSE(cudnn_attention(without_gradient, kChannels, kScale, 0).defined());
  const AttentionKernelChoice choice(
      {.flash = true, .cudnn = false, .efficient = true, .math = true});
  EXPECT_FALSE(cudnn_attention(random_mixed(at::kHalf), kChannels, kScale, 0).defined());
}

}  // namespace
}  // namespace meg::nn
