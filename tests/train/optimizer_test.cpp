#include "libmeg/train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
    EXPECT_TRUE((*optimizer)->zero_grad({.only = only}).ok());
    for (int64_t i = 0; i < micro_batches; ++i) {
      const auto loss = model.loss({.tokens = tokens}, tokens.roll(-1, 1));
      (loss->mean() / micro_batches).backward();
    }
    EXPECT_TRUE((*optimizer)->reduce_gradients().ok());
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

/// In fp16 what autograd adds, the two gradients of a tied embedding, may overflow.
TEST(Optimizer, GathersAnOnlyMicroBatchsGradientsInFp32IfTheyAreFp16) {
  nn::GptModel model = test::small_model(test::small_config(), {.params_dtype = at::kHalf});
  Optimizer::Options options;
  options.accumulate_allreduce_grads_in_fp32 = true;
  const auto optimizer = Optimizer::create(model, nullptr, options);
  ASSERT_TRUE(optimizer.has_value()) << optimizer.status().message();
  ASSERT_TRUE((*optimizer)->zero_grad({.only = true}).ok());
  for (const nn::GptParameter& parameter : model.parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    EXPECT_EQ(parameter.tensor.grad().scalar_type(), at::kFloat) << parameter.name;
  }
}

TEST(Optimizer, TakesTwoEqualHalvesForTheWhole) {
  expect_equal(train(at::kBFloat16, 2, /*only=*/false), train(at::kBFloat16, 1, /*only=*/true));
}

/// A model and its optimizer, whose gradients a test makes itself.
struct Fixture {
  explicit Fixture(at::ScalarType dtype, const Optimizer::Options& options = {},
                   std::unique_ptr<schedule::GradScaler> scaler = nullptr)
      : model(test::small_model(test::small_config(), {.params_dtype = dtype})) {
    auto made = Optimizer::create(model, std::move(scaler), options);
    EXPECT_TRUE(made.has_value()) << made.status().message();
    optimizer = std::move(*made);
  }

  /// Random gradients, times `scale`, in the parameters' type.
  std::vector<at::Tensor> set_gradients(double scale) {
    std::vector<at::Tensor> gradients;
    for (const nn::GptParameter& parameter : model.parameters()) {
      gradients.push_back(at::randn_like(parameter.tensor.detach()).mul_(scale));
      parameter.tensor.mutable_grad() = gradients.back().clone();
    }
    return gradients;
  }

  Result<Optimizer::Outcome> step(const Optimizer::Rates& rates = {.lr = 0.01,
                                                                   .weight_decay = 0.1}) {
    EXPECT_TRUE(optimizer->reduce_gradients().ok());
    return optimizer->step(rates);
  }

  /// Weights and everything that the optimizer keeps.
  std::vector<at::Tensor> everything() {
    std::vector<at::Tensor> tensors;
    for (const nn::GptParameter& parameter : model.parameters()) {
      tensors.push_back(parameter.tensor.detach().clone());
    }
    const auto states = optimizer->states();
    for (const Optimizer::ParameterState& state : *states) {
      for (const at::Tensor& tensor : {state.master, state.exp_avg, state.exp_avg_sq}) {
        if (tensor.defined()) tensors.push_back(tensor.clone());
      }
    }
    return tensors;
  }

  nn::GptModel model;
  std::unique_ptr<Optimizer> optimizer;
};

void expect_same(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
}

/// Adam with decoupled weight decay as its paper writes it, in double.
class ReferenceAdam {
 public:
  explicit ReferenceAdam(const nn::GptModel& model) {
    for (const nn::GptParameter& parameter : model.parameters()) {
      weights_.push_back(parameter.tensor.detach().to(at::kDouble));
      first_.push_back(at::zeros_like(weights_.back()));
      second_.push_back(at::zeros_like(weights_.back()));
      decays_.push_back(parameter.weight_decay);
    }
  }

  /// Returns the gradients' norm. scale: what they were multiplied with.
  double step(const std::vector<at::Tensor>& gradients, double scale,
              const Optimizer::Options& options, const Optimizer::Rates& rates) {
    double squares = 0;
    for (const at::Tensor& gradient : gradients) {
      squares += gradient.to(at::kDouble).div(scale).square().sum().item<double>();
    }
    const double norm = std::sqrt(squares);
    const double clip = options.clip_grad > 0 ? std::min(1.0, options.clip_grad / norm) : 1.0;
    ++steps_;
    const auto [beta1, beta2] = options.betas;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const at::Tensor gradient = gradients[i].to(at::kDouble) * (clip / scale);
      first_[i] = first_[i] * beta1 + gradient * (1 - beta1);
      second_[i] = second_[i] * beta2 + gradient.square() * (1 - beta2);
      const at::Tensor mean = first_[i] / (1 - std::pow(beta1, steps_));
      const at::Tensor spread = (second_[i] / (1 - std::pow(beta2, steps_))).sqrt() + options.eps;
      const double decay = decays_[i] ? rates.weight_decay : 0;
      weights_[i] = weights_[i] * (1 - rates.lr * decay) - rates.lr * mean / spread;
    }
    return norm;
  }

  const std::vector<at::Tensor>& weights() const { return weights_; }

 private:
  std::vector<at::Tensor> weights_, first_, second_;
  std::vector<bool> decays_;
  int steps_ = 0;
};

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach().to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(Optimizer, StepsAsAdamIsWritten) {
  // Gradients of length 40: one norm below what clips, one above, none clipped.
  for (const double clip_grad : {1e3, 1.0, 0.0}) {
    const Optimizer::Options options{.betas = {0.8, 0.95}, .eps = 1e-6, .clip_grad = clip_grad};
    const Optimizer::Rates rates{.lr = 0.01, .weight_decay = 0.1};
    Fixture run(at::kFloat, options);
    ReferenceAdam reference(run.model);
    for (int i = 0; i < 4; ++i) {
      const double norm = reference.step(run.set_gradients(1), 1, options, rates);
      const auto outcome = run.step(rates);
      ASSERT_TRUE(outcome.has_value()) << outcome.status().message();
      EXPECT_FALSE(outcome->skipped);
      EXPECT_NEAR(outcome->grad_norm, norm, 1e-6 * norm);
    }
    EXPECT_EQ(run.optimizer->updates(), 4);
    const auto parameters = run.model.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_LT(largest_difference(parameters[i].tensor, reference.weights()[i]), 2e-6)
          << parameters[i].name << " with " << clip_grad;
    }
  }
}

TEST(Optimizer, DecaysMatricesAndNoVectors) {
  Fixture run(at::kFloat);
  const std::vector<at::Tensor> before = run.everything();
  for (const nn::GptParameter& parameter : run.model.parameters()) {
    parameter.tensor.mutable_grad() = at::zeros_like(parameter.tensor.detach());
  }
  ASSERT_TRUE(run.step({.lr = 0.5, .weight_decay = 0.5}).has_value());
  const auto parameters = run.model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool decays = parameters[i].tensor.dim() > 1;
    const at::Tensor wanted = decays ? before[i] * 0.75F : before[i];
    EXPECT_EQ(largest_difference(parameters[i].tensor, wanted), 0) << parameters[i].name;
  }
}

TEST(Optimizer, MovesMastersAndRoundsThemTo16Bits) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Optimizer::Options options;
    const Optimizer::Rates rates{.lr = 1e-4, .weight_decay = 0.1};
    Fixture run(dtype, options);
    ReferenceAdam reference(run.model);
    for (int i = 0; i < 3; ++i) {
      reference.step(run.set_gradients(1), 1, options, rates);
      ASSERT_TRUE(run.step(rates).has_value());
    }
    const auto parameters = run.model.parameters();
    const auto states = run.optimizer->states();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& master = (*states)[i].master;
      ASSERT_EQ(master.scalar_type(), at::kFloat);
      EXPECT_LT(largest_difference(master, reference.weights()[i]), 1e-6) << parameters[i].name;
      EXPECT_TRUE(at::equal(parameters[i].tensor.detach(), master.to(dtype))) << parameters[i].name;
    }
  }
}

std::unique_ptr<schedule::GradScaler> dynamic_scaler(double initial_scale) {
  auto scaler = schedule::DynamicGradScaler::create(
      {.initial_scale = initial_scale, .growth_interval = 2, .hysteresis = 1});
  EXPECT_TRUE(scaler.has_value()) << scaler.status().message();
  return std::move(*scaler);
}

TEST(Optimizer, UnscalesGradientsOfAScaledLoss) {
  const Optimizer::Options options{.clip_grad = 1e3};
  const Optimizer::Rates rates{.lr = 0.01, .weight_decay = 0.1};
  Fixture run(at::kHalf, options, dynamic_scaler(512));
  ReferenceAdam reference(run.model);
  EXPECT_EQ(run.optimizer->loss_scale(), 512);
  const double norm = reference.step(run.set_gradients(512), 512, options, rates);
  const auto outcome = run.step(rates);
  ASSERT_TRUE(outcome.has_value()) << outcome.status().message();
  EXPECT_NEAR(outcome->grad_norm, norm, 1e-6 * norm);
  const auto states = run.optimizer->states();
  for (size_t i = 0; i < states->size(); ++i) {
    EXPECT_LT(largest_difference((*states)[i].master, reference.weights()[i]), 2e-6) << i;
  }
}

TEST(Optimizer, ASkippedStepMovesTheScaleAlone) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Fixture run(at::kHalf, {}, dynamic_scaler(512));
    run.set_gradients(1);
    ASSERT_TRUE(run.step().has_value());
    const std::vector<at::Tensor> before = run.everything();
    run.set_gradients(1);
    run.model.parameters().back().tensor.mutable_grad().view(-1)[3] = bad;
    const auto outcome = run.step();
    ASSERT_TRUE(outcome.has_value()) << outcome.status().message();
    EXPECT_TRUE(outcome->skipped);
    expect_same(run.everything(), before);
    EXPECT_EQ(run.optimizer->updates(), 1);
    EXPECT_EQ(run.optimizer->loss_scale(), 256);
    for (int i = 0; i < 2; ++i) {
      run.set_gradients(1);
      EXPECT_FALSE(run.step()->skipped);
    }
    EXPECT_EQ(run.optimizer->loss_scale(), 512) << "after growth_interval good steps";
  }
}

TEST(Optimizer, NamesTheParameterOfANonFiniteGradient) {
  Fixture run(at::kFloat);
  const std::vector<at::Tensor> before = run.everything();
  run.set_gradients(1);
  const nn::GptParameter& parameter = run.model.parameters()[2];
  parameter.tensor.mutable_grad().view(-1)[0] = std::numeric_limits<double>::quiet_NaN();
  const auto outcome = run.step();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code(), StatusCode::kOutOfRange);
  EXPECT_NE(outcome.error().message().find(parameter.name), std::string::npos)
      << outcome.error().message();
  expect_same(run.everything(), before);
}

TEST(Optimizer, GivesBackTheStateThatItTook) {
  Fixture from(at::kBFloat16), to(at::kBFloat16);
  for (int i = 0; i < 2; ++i) {
    from.set_gradients(1);
    ASSERT_TRUE(from.step().has_value());
  }
  const auto states = from.optimizer->states();
  const auto targets = to.optimizer->states();
  for (size_t i = 0; i < states->size(); ++i) {
    (*targets)[i].master.copy_((*states)[i].master);
    (*targets)[i].exp_avg.copy_((*states)[i].exp_avg);
    (*targets)[i].exp_avg_sq.copy_((*states)[i].exp_avg_sq);
  }
  ASSERT_TRUE(to.optimizer->take_states(*targets).ok());
  ASSERT_TRUE(to.optimizer->copy_masters_to_model().ok());
  to.optimizer->set_updates(from.optimizer->updates());
  expect_same(to.everything(), from.everything());
  const std::vector<at::Tensor> gradients = from.set_gradients(1);
  for (size_t i = 0; i < gradients.size(); ++i) {
    to.model.parameters()[i].tensor.mutable_grad() = gradients[i].clone();
  }
  ASSERT_TRUE(from.step().has_value());
  ASSERT_TRUE(to.step().has_value());
  expect_same(to.everything(), from.everything());
}

}  // namespace
}  // namespace meg::train
