#include "libmeg/schedule/optimizer_param_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace meg::schedule {
namespace {

using Options = OptimizerParamScheduler::Options;

Options usual() {
  return {.max_lr = 1.0,
          .min_lr = 0.25,
          .lr_warmup_steps = int64_t{100},
          .lr_decay_steps = int64_t{500},
          .wd_incr_steps = int64_t{1000}};
}

double lr_at(const Options& options, int64_t steps) {
  auto scheduler = OptimizerParamScheduler::create(options);
  EXPECT_TRUE(scheduler.has_value());
  scheduler->step(steps);
  return scheduler->lr();
}

std::string error_of(const Options& options) {
  const auto scheduler = OptimizerParamScheduler::create(options);
  return scheduler.has_value() ? "taken" : scheduler.error().message();
}

TEST(OptimizerParamScheduler, WarmsUpFromInitLr) {
  Options options = usual();
  EXPECT_EQ(lr_at(options, 50), 0.5);
  options.init_lr = 0.5;
  EXPECT_EQ(lr_at(options, 0), 0.5);
  EXPECT_EQ(lr_at(options, 50), 0.75);
  EXPECT_EQ(lr_at(options, 100), 1.0);
}

TEST(OptimizerParamScheduler, EndsAtTheLeastLearningRateUnlessConstant) {
  Options options = usual();
  for (const LrDecayStyle style : {LrDecayStyle::kLinear, LrDecayStyle::kCosine}) {
    options.lr_decay_style = style;
    EXPECT_EQ(lr_at(options, 300), 0.625) << style_text(style);
    EXPECT_EQ(lr_at(options, 500), 0.25) << style_text(style);
    EXPECT_EQ(lr_at(options, 501), 0.25) << style_text(style);
  }
  options.lr_decay_style = LrDecayStyle::kConstant;
  EXPECT_EQ(lr_at(options, 501), 1.0);
}

TEST(OptimizerParamScheduler, TheDecoupledRateHasTheSameCourseBetweenItsOwnEnds) {
  const auto decoupled_at = [](const Options& options, int64_t steps) {
    auto scheduler = OptimizerParamScheduler::create(options);
    EXPECT_TRUE(scheduler.has_value());
    scheduler->step(steps);
    return scheduler->decoupled_lr();
  };
  Options options = usual();
  options.lr_decay_style = LrDecayStyle::kLinear;
  EXPECT_EQ(decoupled_at(options, 50), std::nullopt);
  options.decoupled_lr = 8.0;
  EXPECT_EQ(decoupled_at(options, 50), 4.0);
  EXPECT_EQ(decoupled_at(options, 300), (8.0 + 0.25) / 2);
  EXPECT_EQ(decoupled_at(options, 501), 0.25) << "min_lr's";
  options.decoupled_min_lr = 2.0;
  EXPECT_EQ(decoupled_at(options, 300), 5.0);
  EXPECT_EQ(lr_at(options, 300), 0.625);
  options.decoupled_lr = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of(options), "`decoupled_lr`: expected a finite number, found inf");
}

TEST(OptimizerParamScheduler, WsdIsStableUntilItsDecay) {
  Options options = usual();
  options.lr_decay_style = LrDecayStyle::kWsd;
  options.wsd_decay_steps = 100;
  for (const auto& [style, middle] :
       {std::pair{LrWsdDecayStyle::kLinear, 0.75}, std::pair{LrWsdDecayStyle::kCosine, 0.5},
        std::pair{LrWsdDecayStyle::kExponential, 0.75},
        std::pair{LrWsdDecayStyle::kMinusSqrt, 0.5}}) {
    options.lr_wsd_decay_style = style;
    options.min_lr = 0;
    EXPECT_EQ(lr_at(options, 400), 1.0) << style_text(style);
    EXPECT_LT(lr_at(options, 425), 1.0) << style_text(style);
    EXPECT_NEAR(lr_at(options, 425), middle, 0.36) << style_text(style);
    EXPECT_NEAR(lr_at(options, 500), 0.0, 1e-15) << style_text(style);
  }
  options.lr_wsd_decay_style = LrWsdDecayStyle::kMinusSqrt;
  EXPECT_EQ(lr_at(options, 425), 0.5);
}

TEST(OptimizerParamScheduler, WeightDecayGrowsToItsEndAndStays) {
  Options options = usual();
  options.start_wd = 0.5;
  options.end_wd = 1.0;
  options.wd_incr_style = WeightDecayIncrStyle::kLinear;
  auto scheduler = *OptimizerParamScheduler::create(options);
  EXPECT_EQ(scheduler.weight_decay(), 0.5);
  scheduler.step(500);
  EXPECT_EQ(scheduler.weight_decay(), 0.75);
  scheduler.step(700);
  EXPECT_EQ(scheduler.weight_decay(), 1.0);
}

TEST(OptimizerParamScheduler, RefusesSchedulesWithoutMeaning) {
  Options options = usual();
  options.min_lr = 2;
  EXPECT_EQ(error_of(options), "`min_lr`: expected at most `lr` (1), found 2");
  options = usual();
  options.min_lr = -1;
  EXPECT_EQ(error_of(options), "`min_lr`: expected 0 or more, found -1");
  options = usual();
  options.init_lr = 2;
  EXPECT_EQ(error_of(options), "`lr_warmup_init`: expected at most `lr` (1), found 2");
  options = usual();
  options.lr_warmup_steps = int64_t{500};
  EXPECT_EQ(error_of(options),
            "learning rate warmup: expected less than the 500 samples of its decay, found 500");
  options = usual();
  options.lr_decay_style = LrDecayStyle::kWsd;
  EXPECT_EQ(error_of(options),
            "`lr_decay_style` WSD: expected `lr_wsd_decay_iters` or `lr_wsd_decay_samples`, found "
            "neither");
  options = usual();
  options.max_lr = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_of(options), "`lr`: expected a finite number, found nan");
  options = usual();
  options.use_checkpoint_opt_param_scheduler = options.override_opt_param_scheduler = true;
  EXPECT_EQ(error_of(options),
            "`override_opt_param_scheduler`: cannot be combined with "
            "`use_checkpoint_opt_param_scheduler`");
}

TEST(OptimizerParamScheduler, StyleNamesAreMegatrons) {
  EXPECT_EQ(*parse_lr_decay_style("inverse-square-root"), LrDecayStyle::kInverseSquareRoot);
  EXPECT_EQ(*parse_lr_decay_style("WSD"), LrDecayStyle::kWsd);
  EXPECT_EQ(*parse_lr_wsd_decay_style("minus_sqrt"), LrWsdDecayStyle::kMinusSqrt);
  EXPECT_EQ(parse_lr_decay_style("wsd").error().message(),
            "expected one of constant, linear, cosine, inverse-square-root, WSD, found \"wsd\"");
}

}  // namespace
}  // namespace meg::schedule
