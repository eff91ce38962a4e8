#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "libmeg/nn/operators/internal/attention/attention_heads.h"
#include "libmeg/nn/operators/internal/bias_gelu.h"
#include "libmeg/nn/operators/internal/cross_entropy.h"
#include "libmeg/nn/operators/internal/dropout_add_norm.h"
#include "libmeg/nn/operators/internal/embedding_sum.h"
#include "libmeg/nn/operators/internal/epilogue_linear.h"
#include "libmeg/nn/operators/internal/swiglu.h"
#include "libmeg/nn/operators/internal/widened_product.h"

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

/// Values and gradients of two functions of several tensors, within `bound`.
template <class Left, class Right>
void expect_same_gradients(Left left, Right right, const std::vector<at::Tensor>& inputs,
                           double bound) {
  const auto gradients = [&](const auto& function) {
    std::vector<at::Tensor> leaves, found;
    for (const at::Tensor& input : inputs) leaves.push_back(input.clone().requires_grad_(true));
    const at::Tensor output = function(leaves);
    (output * at::linspace(-1, 1, output.numel()).view(output.sizes())).sum().backward();
    found.push_back(output.detach());
    for (const at::Tensor& leaf : leaves) found.push_back(leaf.grad());
    return found;
  };
  const std::vector<at::Tensor> found = gradients(left), expected = gradients(right);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::allclose(found[i], expected[i], bound, bound)) << i;
  }
}

/// What backward passes of `function` leave in the parameters' gradients where these are fp32
/// arrays of ones beforehand.
template <class Function>
std::vector<at::Tensor> main_gradients(Function function, std::vector<at::Tensor> parameters) {
  std::vector<at::Tensor> found;
  for (at::Tensor& parameter : parameters) {
    parameter = parameter.detach().clone().requires_grad_(true);
    parameter.mutable_grad() = at::ones(parameter.sizes());
  }
  for (int pass = 0; pass < 2; ++pass)
    function(parameters).to(at::kFloat).square().sum().backward();
  for (const at::Tensor& parameter : parameters) found.push_back(parameter.grad());
  return found;
}

/// They are what those of `plain` are, whose gradients autograd rounds before they are added.
template <class Left, class Right>
void expect_same_main_gradients(Left function, Right plain,
                                const std::vector<at::Tensor>& parameters) {
  const std::vector<at::Tensor> found = main_gradients(function, parameters);
  const std::vector<at::Tensor> expected = main_gradients(plain, parameters);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), at::kFloat);
    const double largest = expected[i].abs().max().item<double>();
    EXPECT_GT(largest, 1);
    EXPECT_TRUE(at::allclose(found[i], expected[i], 0.02, 0.01 * largest)) << i;
  }
}

TEST(EpilogueLinearTest, AddsToMainGradients) {
  at::manual_seed(4);
  const at::Tensor input = at::randn({3, 5, 8}).to(at::kBFloat16);
  const auto made = [](at::IntArrayRef shape) { return at::randn(shape).to(at::kBFloat16); };
  expect_same_main_gradients([&](const auto& x) { return epilogue_linear(input, x[0], x[1]); },
                             [&](const auto& x) { return at::linear(input, x[0], x[1]); },
                             {made({6, 8}), made({6})});
  expect_same_main_gradients([&](const auto& x) { return epilogue_linear(input, x[0], {}); },
                             [&](const auto& x) { return at::linear(input, x[0]); },
                             {made({6, 8})});
  expect_same_main_gradients(
      [&](const auto& x) { return epilogue_mlp(input, x[0], x[1], x[2], x[3]); },
      [&](const auto& x) {
        return at::linear(at::gelu(at::linear(input, x[0], x[1]), "tanh"), x[2], x[3]);
      },
      {made({32, 8}), made({32}), made({8, 32}), made({8})});
}

TEST(EmbeddingSumTest, IsAtensWithItsGradients) {
  at::manual_seed(5);
  const at::Tensor tokens = at::randint(9, {3, 6}, at::kLong);
  const at::Tensor words = at::randn({11, 20}), positions = at::randn({8, 20});
  for (const at::Tensor& ids :
       {at::Tensor(), at::randint(8, {3, 6}, at::kLong), at::randint(8, {1, 6}, at::kLong)}) {
    const auto plain = [&](const std::vector<at::Tensor>& x) {
      return at::embedding(x[0], tokens) +
             (ids.defined() ? at::embedding(x[1], ids) : x[1].narrow(0, 0, 6));
    };
    const auto fused = [&](const std::vector<at::Tensor>& x) {
      return embedding_sum(x[0], tokens, x[1], ids);
    };
    expect_same_gradients(fused, plain, {words, positions}, 1e-5);
    expect_same_main_gradients(fused, plain,
                               {words.to(at::kBFloat16), positions.to(at::kBFloat16)});
  }
  expect_same_gradients([&](const auto& x) { return embedding_sum(x[0], tokens, {}, {}); },
                        [&](const auto& x) { return at::embedding(x[0], tokens); }, {words}, 1e-5);
}

TEST(EpilogueLinearTest, IsAtensWithItsGradients) {
  at::manual_seed(1);
  expect_same_gradients([](const auto& x) { return epilogue_linear(x[0] * 1, x[1], x[2]); },
                        [](const auto& x) { return at::linear(x[0], x[1], x[2]); },
                        {at::randn({3, 5, 8}), at::randn({6, 8}), at::randn({6})}, 1e-5);
  expect_same_gradients([](const auto& x) { return epilogue_linear(x[0] * 1, x[1], {}); },
                        [](const auto& x) { return at::linear(x[0], x[1]); },
                        {at::randn({3, 5, 8}), at::randn({6, 8})}, 1e-5);
}

TEST(EpilogueLinearTest, AnMlpIsAtensWithItsGradients) {
  at::manual_seed(2);
  const auto plain = [](const auto& x) {
    return at::linear(at::gelu(at::linear(x[0], x[1], x[2]), "tanh"), x[3], x[4]);
  };
  const auto fused = [](const auto& x) { return epilogue_mlp(x[0] * 1, x[1], x[2], x[3], x[4]); };
  const std::vector<at::Tensor> inputs = {at::randn({3, 5, 8}), at::randn({20, 8}), at::randn({20}),
                                          at::randn({8, 20}), at::randn({8})};
  expect_same_gradients(fused, plain, inputs, 1e-5);
  // Weights that are not trained, as when only some parameters are.
  const auto frozen = [](const auto& function) {
    return [function](const std::vector<at::Tensor>& x) {
      return function(std::vector<at::Tensor>{x[0], x[1].detach(), x[1].detach().select(1, 0), x[2],
                                              x[3]}) +
             x[1].sum();
    };
  };
  expect_same_gradients(frozen(fused), frozen(plain), {inputs[0], inputs[1], inputs[3], inputs[4]},
                        1e-5);
}

/// What dropout_add_norm computes, by LibTorch's operators; the factors of dropout by its rule.
std::vector<at::Tensor> plain_dropout_add_norm(const std::vector<at::Tensor>& x,
                                               const kernels::DropoutMask& mask, bool is_rms_norm,
                                               bool is_1p) {
  const kernels::DropoutFactors dropout(mask);
  const at::Tensor factors = at::empty(x[0].sizes());
  for (int64_t i = 0; i < factors.numel(); ++i) {
    factors.mutable_data_ptr<float>()[i] = dropout.of_element(i);
  }
  const at::Tensor sum = x[1] + x[0] * factors;
  const at::Tensor weight = is_1p ? x[2] + 1 : x[2];
  return {sum, is_rms_norm ? at::rms_norm(sum, {x[1].size(-1)}, weight, 1e-5)
                           : at::layer_norm(sum, {x[1].size(-1)}, weight, x[3], 1e-5)};
}

TEST(DropoutAddNormTest, IsAtensWithItsGradients) {
  at::manual_seed(1);
  const std::vector<at::Tensor> inputs = {at::randn({3, 5, 33}), at::randn({3, 5, 33}) * 2,
                                          at::randn({33}), at::randn({33})};
  for (const double kept : {1.0, 0.7}) {
    for (const bool is_rms_norm : {false, true}) {
      for (const bool is_1p : {false, true}) {
        const kernels::DropoutMask mask = {.kept = kept, .seed = 3, .offset = 8};
        // Both results, each with a gradient of its own.
        const auto joined = [](const at::Tensor& sum, const at::Tensor& normalized) {
          return at::stack({sum, normalized});
        };
        const auto plain = [&](const std::vector<at::Tensor>& x) {
          const auto found = plain_dropout_add_norm(x, mask, is_rms_norm, is_1p);
          return joined(found[0], found[1]) + x[3].sum() * 1e-30;
        };
        const auto fused = [&](const std::vector<at::Tensor>& x) {
          NormKernel norm{.weight = x[2],
                          .bias = is_rms_norm ? at::Tensor() : x[3],
                          .is_rms_norm = is_rms_norm,
                          .is_1p = is_1p,
                          .epsilon = 1e-5};
          const auto found = dropout_add_norm(x[0] * 1, x[1] * 1, mask, norm);
          return joined(found.sum, found.normalized) + x[3].sum() * 1e-30;
        };
        expect_same_gradients(fused, plain, inputs, 1e-5);
      }
    }
  }
}

TEST(DropoutAddNormTest, TakesNoBranchAndNoNorm) {
  at::manual_seed(2);
  const std::vector<at::Tensor> inputs = {at::randn({4, 12}), at::randn({4, 12}), at::randn({12}),
                                          at::randn({12})};
  const NormKernel plain_norm = {.weight = inputs[2], .bias = inputs[3], .epsilon = 1e-5};
  const auto without_branch = [&](const std::vector<at::Tensor>& x) {
    const NormKernel norm = {.weight = x[2], .bias = x[3], .epsilon = 1e-5};
    const auto [sum, normalized] = dropout_add_norm({}, x[1] * 1, {}, norm);
    return normalized + sum * 3 + x[0];
  };
  expect_same_gradients(
      without_branch,
      [](const std::vector<at::Tensor>& x) {
        return at::layer_norm(x[1], {12}, x[2], x[3], 1e-5) + x[1] * 3 + x[0];
      },
      inputs, 1e-5);
  const auto without_norm = [](const std::vector<at::Tensor>& x) {
    return dropout_add_norm(x[0], x[1], {}, {}).sum * x[2] + x[3];
  };
  expect_same_gradients(
      without_norm, [](const std::vector<at::Tensor>& x) { return (x[0] + x[1]) * x[2] + x[3]; },
      inputs, 1e-5);
  const at::NoGradGuard without_gradients;
  const auto found = dropout_add_norm({}, inputs[1], {}, plain_norm);
  EXPECT_FALSE(found.normalized.requires_grad());
  EXPECT_TRUE(found.sum.is_same(inputs[1]));
}

TEST(DropoutAddNormTest, AddsToMainGradients) {
  at::manual_seed(3);
  const at::Tensor branch = at::randn({6, 40}).to(at::kBFloat16);
  const at::Tensor residual = at::randn({6, 40});  // fp32 beside bf16
  const auto fused = [&](const std::vector<at::Tensor>& x) {
    const NormKernel norm = {.weight = x[0], .bias = x[1], .epsilon = 1e-5};
    const auto found = dropout_add_norm(branch, residual, {}, norm);
    EXPECT_EQ(found.sum.scalar_type(), at::kFloat);
    EXPECT_EQ(found.normalized.scalar_type(), at::kBFloat16);
    return found.normalized;
  };
  const auto plain = [&](const std::vector<at::Tensor>& x) {
    return at::layer_norm(residual + branch, {40}, x[0].to(at::kFloat), x[1].to(at::kFloat), 1e-5)
        .to(at::kBFloat16);
  };
  expect_same_main_gradients(
      fused, plain, {at::randn({40}).to(at::kBFloat16), at::randn({40}).to(at::kBFloat16)});
}

/// The same in fp64, its operands and its result rounded as they are.
at::Tensor exact_product(const at::Tensor& first, const at::Tensor& second) {
  return at::matmul(first.to(at::kDouble), second.to(at::kDouble).transpose(-2, -1)) * 0.5;
}

TEST(WidenedProductTest, RoundsTheProductAndItsGradientsOnce) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    // Near the middle of two numbers fp32 may round to the other one.
    const double half_step = type == at::kHalf ? 0x1p-11 : 0x1p-8;
    for (const int64_t batch : {0, 3}) {
      const auto made = [&](int64_t rows) {
        const at::Tensor matrix = at::randn({batch + 1, rows, 300}).to(type);
        return (batch == 0 ? matrix[0] : matrix).clone();
      };
      expect_same_function(
          [](const at::Tensor& a, const at::Tensor& b) { return widened_product(a, b, {}, 0.5); },
          [&](const at::Tensor& a, const at::Tensor& b) { return exact_product(a, b).to(type); },
          made(70), made(41), 2.02 * half_step);
    }
  }
}

TEST(WidenedProductTest, AddsTheBiasBeforeItRounds) {
  // 1024.39 and 0.25, where halves stand 1 apart.
  const at::Tensor row = at::cat({at::full({1, 4}, 16), at::full({1, 1}, 0.625)}, 1).to(at::kHalf);
  const at::Tensor bias = at::full({1}, 0.25, at::kHalf).requires_grad_(true);
  const at::Tensor sum = widened_product(row, row, bias);
  EXPECT_EQ(sum.item<double>(), 1025);
  sum.sum().backward();
  EXPECT_EQ(bias.grad().item<double>(), 1);
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
  const auto fused = [](const at::Tensor& x, const at::Tensor& y) {
    return cross_entropy(x, y, at::zeros({1}, at::kInt));
  };
  expect_same_function(fused, plain, logits, labels, 1e-6);
  expect_same_function(fused, plain, logits.to(at::kHalf), labels, 1e-3);
}

TEST(CrossEntropyTest, OneVisitGivesTheBitsOfTwo) {
  at::manual_seed(2);
  const at::Tensor error = at::zeros({1}, at::kInt);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    // Transposed logits, which are not dense, too.
    for (const bool dense : {true, false}) {
      const at::Tensor made = at::randn({5, 130, 3}).mul(4).to(type).transpose(1, 2);
      const at::Tensor logits = dense ? made.contiguous() : made;
      const at::Tensor labels = at::randint(130, {5, 3}, at::kLong);
      const at::Tensor factors = at::randn({5, 3}) * at::randint(2, {5, 3}, at::kFloat);
      at::Tensor leaf = logits.clone().requires_grad_(true);
      const at::Tensor losses = cross_entropy(leaf * 1, labels, error);
      (losses * factors).sum().backward();
      const LossesAndGradient found =
          cross_entropy_with_gradient(logits.clone(), labels, factors, error);
      EXPECT_TRUE(at::equal(found.losses, losses.detach()));
      EXPECT_TRUE(at::equal(found.grad_logits, leaf.grad()));
      EXPECT_FALSE(found.losses.requires_grad());
    }
  }
}

TEST(SwigluFunctionTest, IsAtensWithItsGradients) {
  at::manual_seed(4);
  const auto plain = [](const std::vector<at::Tensor>& inputs) {
    const std::vector<at::Tensor> halves = inputs[0].chunk(2, -1);
    return at::silu(halves[0]) * halves[1];
  };
  const auto fused = [](const std::vector<at::Tensor>& inputs) { return swiglu(inputs[0]); };
  expect_same_gradients(fused, plain, {at::randn({3, 5, 66}) * 3}, 1e-6);
  expect_same_gradients(fused, plain, {(at::randn({3, 5, 66}) * 3).to(at::kBFloat16)}, 0.05);
  expect_same_gradients(fused, plain, {at::randn({34, 4}).t()}, 1e-6);
}

/// Rotary embedding by operators that each make one array.
at::Tensor rotate(const at::Tensor& heads, const RotaryTable& table, bool interleaved) {
  const int64_t turned = table.cosine.size(-1);
  const at::Tensor first = heads.narrow(-1, 0, turned);
  at::Tensor other;
  if (interleaved) {
    const std::vector<at::Tensor> pairs = first.unflatten(-1, {-1, 2}).unbind(-1);
    other = at::stack({-pairs[1], pairs[0]}, -1).flatten(-2);
  } else {
    const std::vector<at::Tensor> halves = first.chunk(2, -1);
    other = at::cat({-halves[1], halves[0]}, -1);
  }
  return at::cat({first * table.cosine + other * table.sine,
                  heads.narrow(-1, turned, heads.size(-1) - turned)},
                 -1);
}

/// What attention would make of heads: anything in which each has a part of its own.
at::Tensor weighed(const AttentionHeads& heads) {
  const auto weights = [](const at::Tensor& one, double begin) {
    return at::linspace(begin, begin + 1, one.numel()).view(one.sizes());
  };
  return at::cat({(heads.query * weights(heads.query, 1)).flatten(2),
                  (heads.key * weights(heads.key, 2)).flatten(2),
                  (heads.value * weights(heads.value, 3)).flatten(2)},
                 2);
}

struct HeadCase {
  int64_t queries_per_group;
  double rotary_percent;  ///< 0: none
  bool interleaved;
};

class AttentionHeadsFunctionTest : public ::testing::TestWithParam<HeadCase> {};

TEST_P(AttentionHeadsFunctionTest, IsAtensWithItsGradients) {
  const auto [queries, percent, interleaved] = GetParam();
  constexpr int64_t kTokens = 5, kGroups = 3, kChannels = 16;
  at::manual_seed(3);
  const at::Tensor mixed = at::randn({2, kTokens, kGroups * (queries + 2) * kChannels});
  RotaryTable table;
  if (percent > 0) {
    model::GptConfig config;
    config.kv_channels = kChannels;
    GptOptions options;
    options.rotary_percent = percent;
    options.rotary_interleaved = interleaved;
    table = rotary_table(config, options, kTokens);
  }
  const auto plain = [&](const at::Tensor& x) {
    const std::vector<at::Tensor> parts =
        x.view({2, kTokens, kGroups, queries + 2, kChannels}).split_with_sizes({queries, 1, 1}, 3);
    return AttentionHeads{parts[0].reshape({2, kTokens, -1, kChannels}), parts[1].squeeze(3),
                          parts[2].squeeze(3)};
  };
  const auto reference = [&](const std::vector<at::Tensor>& inputs) {
    AttentionHeads heads = plain(inputs[0] * 1);
    if (table.cosine.defined()) {
      heads.query = rotate(heads.query, table, interleaved);
      heads.key = rotate(heads.key, table, interleaved);
    }
    return weighed(heads);
  };
  const auto fused = [&](const std::vector<at::Tensor>& inputs) {
    return weighed(split_heads(inputs[0] * 1, queries, kChannels, table, interleaved));
  };
  expect_same_gradients(fused, reference, {mixed}, 1e-6);
  if (!table.cosine.defined()) return;
  const auto turned_later = [&](const std::vector<at::Tensor>& inputs) {
    AttentionHeads heads = split_heads(inputs[0] * 1, queries, kChannels, {}, interleaved);
    turn_heads(heads, table, interleaved);
    return weighed(heads);
  };
  expect_same_gradients(turned_later, reference, {mixed}, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionHeadsFunctionTest,
                         ::testing::Values(HeadCase{1, 0, false}, HeadCase{1, 1, false},
                                           HeadCase{1, 0.5, true}, HeadCase{4, 0, false},
                                           HeadCase{4, 1, true}, HeadCase{2, 0.25, false}));

TEST(AttentionHeadsFunctionTest, RefusesATableOfOtherTokens) {
  model::GptConfig config;
  config.kv_channels = 8;
  EXPECT_ANY_THROW(
      split_heads(at::ones({1, 4, 24}), 1, 8, rotary_table(config, {}, 5), /*interleaved=*/false));
}

}  // namespace
}  // namespace meg::nn
