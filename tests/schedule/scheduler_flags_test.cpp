#include "libmeg/schedule/scheduler_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace meg::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SchedulerFlags iterations(int64_t train_iters) {
  SchedulerFlags flags;
  flags.train_iters = train_iters;
  flags.global_batch_size = 8;
  flags.lr = 1e-4;
  return flags;
}

std::string error_of(const SchedulerFlags& flags) {
  const auto scheduler = get_optimizer_param_scheduler(flags);
  return scheduler.has_value() ? "taken" : scheduler.error().message();
}

TEST(SchedulerFlags, AFractionOfTheDecayIsAFloatAndIterationsAreIntegers) {
  SchedulerFlags flags = iterations(100);
  flags.lr_decay_iters = 320000;
  flags.lr_warmup_fraction = 0.01;
  EXPECT_EQ(get_optimizer_param_scheduler(flags)->options().lr_warmup_steps, SampleCount(25600.0));
  flags.lr_warmup_fraction.reset();
  flags.lr_warmup_iters = 3200;
  EXPECT_EQ(get_optimizer_param_scheduler(flags)->options().lr_warmup_steps,
            SampleCount(int64_t{25600}));
}

TEST(SchedulerFlags, TheLearningRateMovesOnlyOnStepsTakenAsInTheTutorialsLog) {
  SchedulerFlags flags;
  flags.train_iters = 1000;
  flags.global_batch_size = 16;
  flags.lr = 1e-4;
  flags.min_lr = 1e-5;
  flags.lr_decay_style = LrDecayStyle::kCosine;
  flags.lr_decay_iters = 900;
  flags.lr_warmup_iters = 20;
  auto scheduler = *get_optimizer_param_scheduler(flags);
  std::vector<std::string> shown;
  // Twelve of the first twenty iterations overflow.
  for (int iteration = 1; iteration <= 40; ++iteration) {
    if (iteration > 12) scheduler.step(16);
    if (iteration % 10 == 0) shown.push_back(fmt::format("{:.6E}", scheduler.lr()));
  }
  EXPECT_THAT(shown, ElementsAre("0.000000E+00", "4.000000E-05", "9.000000E-05", "9.998165E-05"));
}

TEST(SchedulerFlags, RefusesASampleFlagInARunOfIterations) {
  SchedulerFlags flags = iterations(10);
  flags.lr_warmup_samples = 5;
  EXPECT_EQ(error_of(flags), "`lr_warmup_samples`: cannot be combined with `train_iters`");
  flags = iterations(10);
  flags.lr_decay_samples = 5;
  EXPECT_THAT(error_of(flags), HasSubstr("`lr_decay_samples`"));
  flags = iterations(10);
  flags.train_samples = 5;
  EXPECT_THAT(error_of(flags), HasSubstr("`train_samples`"));
  flags = iterations(10);
  flags.has_rampup_batch_size = true;
  EXPECT_THAT(error_of(flags), HasSubstr("`rampup_batch_size`"));
}

TEST(SchedulerFlags, RefusesAnIterationFlagInARunOfSamples) {
  SchedulerFlags flags = iterations(0);
  flags.train_iters.reset();
  flags.train_samples = 100;
  EXPECT_EQ(error_of(flags), "taken");
  flags.lr_decay_iters = 5;
  EXPECT_EQ(error_of(flags), "`lr_decay_iters`: cannot be combined with `train_samples`");
}

TEST(SchedulerFlags, RefusesTwoKindsOfWarmup) {
  SchedulerFlags flags = iterations(10);
  flags.lr_warmup_fraction = 0.1;
  flags.lr_warmup_iters = 2;
  EXPECT_EQ(error_of(flags), "`lr_warmup_fraction`: cannot be combined with `lr_warmup_iters`");
}

TEST(SchedulerFlags, RefusesARunWithoutLengthOrLearningRate) {
  EXPECT_EQ(error_of(iterations(0)), "`train_iters`: expected 1 or more, found 0");
  SchedulerFlags flags = iterations(0);
  flags.train_iters.reset();
  EXPECT_EQ(error_of(flags), "expected `train_iters` or `train_samples`, found neither");
  flags.train_samples = 0;
  EXPECT_EQ(error_of(flags), "`train_samples`: expected 1 or more, found 0");
  flags = iterations(10);
  flags.lr.reset();
  EXPECT_EQ(error_of(flags), "`lr`: expected a number, found none");
}

TEST(SchedulerFlags, WeightDecayEndsAreGivenExactlyWhereItGrows) {
  SchedulerFlags flags = iterations(10);
  flags.start_weight_decay = 0.1;
  EXPECT_EQ(error_of(flags),
            "`start_weight_decay`: expected none with `weight_decay_incr_style` constant, found "
            "one");
  flags.weight_decay_incr_style = WeightDecayIncrStyle::kLinear;
  EXPECT_EQ(error_of(flags),
            "`end_weight_decay`: expected a number with `weight_decay_incr_style` linear, found "
            "none");
  flags.end_weight_decay = 0.05;
  EXPECT_EQ(error_of(flags), "end weight decay: expected 0.1 (its start) or more, found 0.05");
  flags.end_weight_decay = 0.3;
  EXPECT_EQ(error_of(flags), "taken");
}

TEST(SchedulerFlags, RefusesCountsThatDoNotFit) {
  SchedulerFlags flags = iterations(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(error_of(flags), HasSubstr("expected at most 2^63 samples"));
  flags = iterations(int64_t{1} << 55);
  EXPECT_THAT(error_of(flags), HasSubstr("2^53"));
}

}  // namespace
}  // namespace meg::schedule
