#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "libmeg/nn/bias_gelu.h"
#include "libmeg/nn/cross_entropy.h"

namespace meg::nn {
namespace {

/// Values and gradients of two functions of two tensors, within `bound`.
template <class Left, class Right>
void expect_same_function(Left left, Right right, const at::Tensor& first, const at::Tensor& second,
                          double bound) {
  const auto gradients = [&](const auto& function) {
    const at::Tensor a = first.clone().requires_grad_(true);
    at::Tensor b = second.clone();
    if (b.is_floating_point()) b.requires_grad_(true);
    const at::Tensor output = function(a * 1, b);
    (output * at::linspace(-1, 1, output.numel()).view(output.sizes())).sum().backward();
    return std::vector<at::Tensor>{output.detach(), a.grad(),
                                   b.requires_grad() ? b.grad() : at::zeros({1})};
  };
  const std::vector<at::Tensor> found = gradients(left);
  const std::vector<at::Tensor> expected = gradients(right);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::allclose(found[i].to(at::kFloat), expected[i].to(at::kFloat), bound, bound))
        << i;
  }
}

TEST(BiasGeluFunctionTest, IsAtensWithItsGradients) {
  at::manual_seed(1);
  const at::Tensor input = at::randn({3, 5, 33}) * 3;
  const at::Tensor bias = at::randn({33});
  const auto plain = [](const at::Tensor& x, const at::Tensor& b) {
    return at::gelu(x + b, "tanh");
  };
  expect_same_function(bias_gelu, plain, input, bias, 1e-6);
  expect_same_function(bias_gelu, plain, input.to(at::kBFloat16), bias.to(at::kBFloat16), 0.05);
}

TEST(BiasGeluFunctionTest, TakesTransposedInput) {
  const at::Tensor input = at::randn({7, 4}).t();
  const at::Tensor bias = at::randn({7});
  EXPECT_TRUE(at::allclose(bias_gelu(input, bias), at::gelu(input + bias, "tanh"), 1e-6, 1e-6));
}

TEST(CrossEntropyTest, IsAtensWithItsGradient) {
  at::manual_seed(1);
  const at::Tensor logits = at::randn({2, 6, 130}) * 4;
  const at::Tensor labels = at::randint(130, {2, 6}, at::kLong);
  const auto plain = [](const at::Tensor& x, const at::Tensor& y) {
    return at::cross_entropy_loss(x.to(at::kFloat).view({-1, x.size(-1)}), y.view({-1}), {},
                                  at::Reduction::None)
        .view(y.sizes());
  };
  expect_same_function(cross_entropy, plain, logits, labels, 1e-6);
  expect_same_function(cross_entropy, plain, logits.to(at::kHalf), labels, 1e-3);
}

}  // namespace
}  // namespace meg::nn
