// The CPU's kernels beside plain ATen: values and the gradients that its autograd would give.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>

#include "libmeg/kernels/bias_gelu.h"
#include "libmeg/kernels/cpu/parallel_for.h"
#include "libmeg/kernels/optimizer/gradient_statistics.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"
#include "libmeg/kernels/softmax_cross_entropy.h"

namespace meg::nn {
namespace {

struct TypeCase {
  kernels::FloatType type;
  at::ScalarType scalar_type;
  double tolerance;  // relative
};

constexpr TypeCase kTypes[] = {{kernels::FloatType::kFloat32, at::kFloat, 1e-6},
                               {kernels::FloatType::kFloat16, at::kHalf, 5.5e-4},
                               {kernels::FloatType::kBFloat16, at::kBFloat16, 4.2e-3}};

/// Normal numbers of the given width, the same in every run.
at::Tensor normal(at::IntArrayRef sizes, double width, at::ScalarType type) {
  at::manual_seed(7);
  return (at::randn(sizes, at::kDouble) * width).to(type);
}

void expect_near(const at::Tensor& found, const at::Tensor& wanted, double relative,
                 double absolute) {
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), wanted.to(at::kDouble), relative, absolute))
      << found.scalar_type() << ": largest difference "
      << (found.to(at::kDouble) - wanted.to(at::kDouble)).abs().max().item<double>();
}

TEST(KernelsAtenTest, ParallelForHasTheThreadsOfAten) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    std::atomic<int> bodies = 0;
    kernels::parallel_for(100, 1, [&](int64_t, int64_t) { ++bodies; });
    EXPECT_EQ(bodies, threads);
  }
  at::set_num_threads(before);
}

TEST(KernelsAtenTest, SoftmaxCrossEntropyAgrees) {
  constexpr int64_t kRows = 19, kColumns = 2307;
  for (const auto& [type, scalar_type, tolerance] : kTypes) {
    at::Tensor logits = normal({kRows, kColumns}, 3, scalar_type);
    const at::Tensor labels = at::arange(kRows) * 121;
    const at::Tensor grad_losses = normal({kRows}, 1, at::kFloat);
    const at::Tensor log_softmax = at::log_softmax(logits.to(at::kDouble), 1);
    const at::Tensor wanted_losses = -log_softmax.gather(1, labels.unsqueeze(1)).squeeze(1);
    const at::Tensor onehot = at::zeros_like(log_softmax).scatter_(1, labels.unsqueeze(1), 1.0);
    const at::Tensor wanted = (log_softmax.exp() - onehot) * grad_losses.unsqueeze(1);

    at::Tensor losses = at::empty({kRows}, at::kFloat);
    at::Tensor maxima = at::empty_like(losses), sums = at::empty_like(losses);
    ASSERT_EQ(kernels::softmax_cross_entropy_forward_cpu(
                  {type, logits.data_ptr(), labels.data_ptr<int64_t>(), losses.data_ptr<float>(),
                   maxima.data_ptr<float>(), sums.data_ptr<float>(), kRows, kColumns},
                  0, kRows),
              -1);
    expect_near(losses, wanted_losses, 3e-7, 0);
    kernels::softmax_cross_entropy_backward_cpu(
        {type, logits.data_ptr(), labels.data_ptr<int64_t>(), maxima.data_ptr<float>(),
         sums.data_ptr<float>(), grad_losses.data_ptr<float>(), logits.data_ptr(), kRows, kColumns},
        0, kRows);
    expect_near(logits, wanted, tolerance, 6e-8);
  }
}

TEST(KernelsAtenTest, BiasGeluAgrees) {
  constexpr int64_t kRows = 33, kColumns = 1531;
  for (const auto& [type, scalar_type, tolerance] : kTypes) {
    const at::Tensor input = normal({kRows, kColumns}, 2, scalar_type);
    const at::Tensor bias = normal({kColumns}, 1, scalar_type);
    const at::Tensor grad_output = normal({kRows, kColumns}, 1, scalar_type).flip({0});
    const at::Tensor x = input.to(at::kDouble) + bias.to(at::kDouble);
    at::Tensor output = at::empty_like(input), grad_input = at::empty_like(input);
    kernels::bias_gelu_forward_cpu(
        {type, input.data_ptr(), bias.data_ptr(), output.data_ptr(), kRows, kColumns}, 0, kRows);
    kernels::bias_gelu_backward_cpu({type, grad_output.data_ptr(), input.data_ptr(),
                                     bias.data_ptr(), grad_input.data_ptr(), kRows, kColumns},
                                    0, kRows);
    expect_near(output, at::gelu(x, "tanh"), tolerance, 3e-7);
    const at::Tensor wanted = at::gelu_backward(grad_output.to(at::kDouble), x, "tanh");
    expect_near(grad_input, wanted, tolerance, 1e-6);
  }
}

TEST(KernelsAtenTest, TenStepsOfAdamAgreeWithFusedAdamW) {
  constexpr int64_t kCount = 50021;
  at::Tensor master = normal({kCount}, 0.02, at::kFloat);
  at::Tensor exp_avg = at::zeros_like(master), exp_avg_sq = at::zeros_like(master);
  std::vector<at::Tensor> peer{master.clone()}, peer_avg{exp_avg.clone()},
      peer_avg_sq{exp_avg_sq.clone()}, steps{at::zeros({}, at::kFloat)};
  for (int64_t i = 1; i <= 10; ++i) {
    const at::Tensor gradient = at::sin(master * static_cast<double>(100 * i));
    kernels::AdamTensor tensor{gradient.data_ptr(), kernels::FloatType::kFloat32,
                               master.data_ptr<float>(), exp_avg.data_ptr<float>(),
                               exp_avg_sq.data_ptr<float>()};
    tensor.count = kCount;
    kernels::AdamStep step;
    step.bias_correction1 = kernels::adam_bias_correction(step.beta1, i);
    step.bias_correction2 = kernels::adam_bias_correction(step.beta2, i);
    step.clip_coefficient = 0.25f;
    step.groups[0] = {1e-3f, 0.1f};
    kernels::multi_tensor_adam_cpu(&tensor, 1, step, 0, kernels::number_chunks(&tensor, 1));
    const std::vector<at::Tensor> clipped{gradient * 0.25};
    steps[0] += 1;
    at::_fused_adamw_(peer, clipped, peer_avg, peer_avg_sq, {}, steps, 1e-3, 0.9, 0.999, 0.1, 1e-8,
                      false, false);
  }
  expect_near(exp_avg, peer_avg[0], 1e-5, 1e-7);
  expect_near(exp_avg_sq, peer_avg_sq[0], 3e-5, 1e-12);
  expect_near(master, peer[0], 1e-6, 2e-7);
}

TEST(KernelsAtenTest, GradientStatisticsAgree) {
  for (const auto& [type, scalar_type, tolerance] : kTypes) {
    at::Tensor gradient = normal({70001}, 1, scalar_type);
    gradient.slice(0, 5, 900, 7).zero_();
    kernels::GradientTensor tensor{gradient.data_ptr(), type, gradient.numel()};
    const int64_t chunks = kernels::number_chunks(&tensor, 1);
    std::vector<kernels::GradientStatistics> of_chunks(static_cast<size_t>(chunks));
    kernels::gradient_statistics_cpu(&tensor, 1, 0.5f, of_chunks.data(), 0, chunks);
    const kernels::GradientStatistics found = kernels::total_statistics(of_chunks.data(), chunks);
    const double norm = (gradient.to(at::kDouble) * 0.5).norm().item<double>();
    EXPECT_NEAR(std::sqrt(found.sum_of_squares), norm, 1e-12 * norm);
    EXPECT_EQ(found.num_zeros, gradient.numel() - at::count_nonzero(gradient).item<int64_t>());
  }
}

}  // namespace
}  // namespace meg::nn
