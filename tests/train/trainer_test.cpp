// What a run does where something goes wrong, on a model that computes in an instant.

#include "libmeg/train/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/temp_folder.h"
#include "tests/train/small_run.h"

namespace meg {
namespace {

using test::small_run;
using test::SmallTrainer;
using test::TempFolder;

constexpr char kPoisoned[] = "decoder.layers.1.mlp.linear_fc2.weight";

at::Tensor parameter(train::Trainer& trainer, const std::string& name) {
  for (const nn::GptParameter& parameter : trainer.model().parameters()) {
    if (parameter.name == name) return parameter.tensor;
  }
  ADD_FAILURE() << name;
  return {};
}

/// From now on the parameter's gradient has one such number in it, while losses stay as they are.
void poison_gradient(train::Trainer& trainer, float value) {
  at::Tensor weight = parameter(trainer, kPoisoned);
  weight.register_hook([value](const at::Tensor& gradient) {
    at::Tensor poisoned = gradient.clone();
    poisoned.view(-1)[5] = value;
    return poisoned;
  });
}

TEST(Trainer, DiesOfNonFiniteGradientsBeforeTheyAreApplied) {
  for (const auto& [value, text] : {std::pair{std::numeric_limits<float>::quiet_NaN(), "NaN"},
                                    {std::numeric_limits<float>::infinity(), "Inf"}}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const TempFolder folder;
      auto options = small_run();
      options.model.params_dtype = dtype;
      options.checkpoints.save = folder.path("save");
      options.checkpoints.save_interval = 3;
      SmallTrainer run(options);
      ASSERT_NE(run.trainer, nullptr) << run.status.message();
      run.trainer->watch(
          [&](const train::StepReport& step) {
            if (step.iteration == 3) poison_gradient(*run.trainer, value);
          },
          {});
      const Status status = run.run();
      EXPECT_EQ(status.message(), std::string("iteration 4: gradient of ") + kPoisoned +
                                      ": expected finite numbers, found " + text +
                                      " (--no-check-for-nan-in-loss-and-grad goes on)");
      EXPECT_TRUE(parameter(*run.trainer, kPoisoned).isfinite().all().item<bool>());
      EXPECT_EQ(test::read_file(folder.path("save/latest_checkpointed_iteration.txt")), "3");
    }
  }
}

TEST(Trainer, GoesOnWithNonFiniteGradientsOnlyWhereItIsTold) {
  auto options = small_run();
  options.optimizer.check_for_nan_in_loss_and_grad = false;
  SmallTrainer run(options);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  poison_gradient(*run.trainer, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(run.run().ok());
  EXPECT_FALSE(parameter(*run.trainer, kPoisoned).isfinite().all().item<bool>());
}

TEST(Trainer, SkipsStepsOfNonFiniteGradientsWithADynamicLossScale) {
  auto options = small_run();
  options.model.params_dtype = at::kHalf;
  options.loss_scaler.initial_scale = 64;
  options.loss_scaler.hysteresis = 1;
  SmallTrainer run(options);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  poison_gradient(*run.trainer, std::numeric_limits<float>::quiet_NaN());
  const at::Tensor before = parameter(*run.trainer, kPoisoned).detach().clone();
  std::vector<double> scales;
  run.trainer->watch(
      [&](const train::StepReport& step) {
        EXPECT_TRUE(step.outcome.skipped);
        scales.push_back(step.loss_scale);
      },
      {});
  EXPECT_TRUE(run.run().ok());
  EXPECT_EQ(scales, (std::vector<double>{64, 32, 16, 8, 4, 2}));
  EXPECT_TRUE(at::equal(parameter(*run.trainer, kPoisoned), before));
}

TEST(Trainer, DiesOfNonFiniteGradientsWithAConstantLossScale) {
  auto options = small_run();
  options.model.params_dtype = at::kHalf;
  options.loss_scale = 64;
  SmallTrainer run(options);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  poison_gradient(*run.trainer, std::numeric_limits<float>::infinity());
  EXPECT_EQ(run.run().message().find("iteration 1: gradient of "), 0U);
}

TEST(Trainer, DiesOfAnInfiniteLoss) {
  for (const bool check : {true, false}) {
    auto options = small_run();
    options.optimizer.check_for_nan_in_loss_and_grad = check;
    SmallTrainer run(options);
    ASSERT_NE(run.trainer, nullptr) << run.status.message();
    // Logits of both signs beyond fp32.
    parameter(*run.trainer, "decoder.final_layernorm.weight").detach().fill_(3e38F);
    const Status status = run.run();
    EXPECT_EQ(status.ok(), !check);
    if (check) {
      EXPECT_EQ(status.message().find("iteration 1: loss: expected finite"), 0U);
    }
  }
}

}  // namespace
}  // namespace meg
