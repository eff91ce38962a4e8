#include "libmeg/train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/nn/small_model.h"

namespace meg::train {
namespace {

/// What two steps of such many equal micro-batches leave of the weights, and the last one's norm.
struct Trained {
  std::vector<at::Tensor> weights, masters;
  double grad_norm = 0;
};

Trained train(at::ScalarType dtype, int64_t micro_batches, bool only) {
  nn::GptOptions options;
  options.params_dtype = dtype;
  options.hidden_dropout = options.attention_dropout = 0;
  nn::GptModel model = test::small_model(test::small_config(), options);
  auto optimizer = Optimizer::create(model, nullptr, {});
  EXPECT_TRUE(optimizer.has_value()) << optimizer.status().message();
  const at::Tensor tokens = test::small_tokens(model.config());
  Trained trained;
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE((*optimizer)->zero_grad().ok());
    for (int64_t i = 0; i < micro_batches; ++i) {
      const auto loss = model.loss({.tokens = tokens}, tokens.roll(-1, 1));
      (loss->mean() / micro_batches).backward();
      EXPECT_TRUE((*optimizer)->accumulate_gradients(only).ok());
    }
    const auto outcome = (*optimizer)->step({.lr = 0.01, .weight_decay = 0.1});
    EXPECT_TRUE(outcome.has_value()) << outcome.status().message();
    trained.grad_norm = outcome->grad_norm;
  }
  for (const nn::GptParameter& parameter : model.parameters()) {
    trained.weights.push_back(parameter.tensor.detach().clone());
  }
  const auto states = (*optimizer)->states();
  for (const Optimizer::ParameterState& state : *states) {
    trained.masters.push_back(state.master.defined() ? state.master.clone() : at::zeros({1}));
  }
  return trained;
}

void expect_equal(const Trained& found, const Trained& wanted) {
  EXPECT_EQ(found.grad_norm, wanted.grad_norm);
  EXPECT_GT(found.grad_norm, 0);
  for (size_t i = 0; i < wanted.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(found.weights[i], wanted.weights[i])) << i;
    EXPECT_TRUE(at::equal(found.masters[i], wanted.masters[i])) << i;
  }
}

TEST(Optimizer, ReadsAnOnlyMicroBatchsGradientsAsIfTheyWereGathered) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    expect_equal(train(dtype, 1, /*only=*/true), train(dtype, 1, /*only=*/false));
  }
}

TEST(Optimizer, TakesTwoEqualHalvesForTheWhole) {
  expect_equal(train(at::kBFloat16, 2, /*only=*/false), train(at::kBFloat16, 1, /*only=*/true));
}

}  // namespace
}  // namespace meg::train
