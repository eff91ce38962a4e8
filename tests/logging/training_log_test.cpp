#include "libmeg/logging/training_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace meg::logging {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Local time, whatever the machine's zone.
std::time_t moment() {
  std::tm local = {};
  local.tm_year = 2025 - 1900;
  local.tm_mon = 3;
  local.tm_mday = 13;
  local.tm_hour = 23;
  local.tm_min = 41;
  local.tm_sec = 20;
  local.tm_isdst = -1;
  return std::mktime(&local);
}

IterationFigures tutorial() {
  return {.iteration = 20,
          .train_iters = 1000,
          .consumed_train_samples = 320,
          .learning_rate = 4e-5,
          .global_batch_size = 16,
          .loss_scale = 131072.0,
          .grad_norm = 3.8741,
          .num_zeros_in_grad = 71.0};
}

TEST(TrainingLog, TheIterationLineIsMegatrons) {
  TrainingLog log(megatron::newest_megatron_version());
  for (int step = 0; step < 4; ++step) log.add({{"lm loss", 10.724530F}}, false);
  for (int step = 0; step < 6; ++step) log.add({{"lm loss", 10.9F}}, true);
  EXPECT_EQ(log.iterations(), 10);
  EXPECT_EQ(log.iteration_line(tutorial(), 8.207, moment()),
            " [2025-04-13 23:41:20] iteration       20/    1000 | consumed samples:          320 | "
            "elapsed time per iteration (ms): 820.7 | learning rate: 4.000000E-05 | global batch "
            "size:    16 | lm loss: 1.072453E+01 | loss scale: 131072.0 | grad norm: 3.874 | num "
            "zeros: 71.0 | number of skipped iterations:   6 | number of nan iterations:   0 |");
}

TEST(TrainingLog, OlderRevisionsHaveNoDateAndThreeDigits) {
  TrainingLog log(*megatron::parse_megatron_version("6ef5bdc"));
  log.add({{"lm loss", 10.5F}}, false);
  EXPECT_EQ(log.iteration_line(tutorial(), 1.0, moment()),
            " iteration       20/    1000 | consumed samples:          320 | elapsed time per "
            "iteration (ms): 1000.0 | learning rate: 4.000E-05 | global batch size:    16 | lm "
            "loss: 1.050000E+01 | loss scale: 131072.0 | grad norm: 3.874 | num zeros: 71.0 | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |");
}

TEST(TrainingLog, TheLossIsTheMeanOverStepsThatWereTaken) {
  TrainingLog log(megatron::newest_megatron_version());
  log.add({{"lm loss", 3.0F}}, false);
  log.add({{"lm loss", 99.0F}}, true);
  log.add({{"lm loss", 5.0F}}, false);
  EXPECT_THAT(log.iteration_line(tutorial(), 1, moment()), HasSubstr("| lm loss: 4.000000E+00 |"));
}

TEST(TrainingLog, SumsAreFp32AsMegatrons) {
  TrainingLog log(megatron::newest_megatron_version());
  for (int step = 0; step < 3; ++step) log.add({{"lm loss", 0.1F}}, false);
  const double sum = static_cast<double>(0.1F + 0.1F + 0.1F);
  EXPECT_THAT(log.iteration_line(tutorial(), 1, moment()),
              HasSubstr(fmt::format("lm loss: {:.6E} |", sum / 3)));
}

TEST(TrainingLog, WithoutAStepTakenThereIsNoLossAndWithASkippedLastNoGradNorm) {
  TrainingLog log(megatron::newest_megatron_version());
  log.add({{"lm loss", 10.5F}}, true);
  IterationFigures figures = tutorial();
  figures.grad_norm.reset();
  figures.num_zeros_in_grad.reset();
  const std::string line = log.iteration_line(figures, 1, moment());
  EXPECT_THAT(line, Not(HasSubstr("lm loss")));
  EXPECT_THAT(line, Not(HasSubstr("grad norm")));
  EXPECT_THAT(line, HasSubstr("| global batch size:    16 | loss scale: 131072.0 | number of "
                              "skipped iterations:   1 |"));
}

TEST(TrainingLog, OnlySkippedStepsCountAsNan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  TrainingLog log(megatron::newest_megatron_version());
  log.add({{"lm loss", kNan}}, true);
  log.add({{"lm loss", kInfinity}}, true);
  log.add({{"lm loss", 1.0F}}, true);
  log.add({{"lm loss", kNan}}, false);
  const std::string line = log.iteration_line(tutorial(), 1, moment());
  EXPECT_THAT(line, HasSubstr("skipped iterations:   3 | number of nan iterations:   2 |"));
  EXPECT_THAT(line, Not(HasSubstr("lm loss")));
}

TEST(TrainingLog, EveryLineStartsItsOwnSums) {
  TrainingLog log(megatron::newest_megatron_version());
  log.add({{"lm loss", 8.0F}}, false);
  log.add({{"lm loss", 8.0F}}, true);
  log.iteration_line(tutorial(), 1, moment());
  EXPECT_EQ(log.iterations(), 0);
  log.add({{"lm loss", 2.0F}}, false);
  const std::string line = log.iteration_line(tutorial(), 1, moment());
  EXPECT_THAT(line, HasSubstr("lm loss: 2.000000E+00"));
  EXPECT_THAT(line, HasSubstr("skipped iterations:   0"));
  EXPECT_THAT(line, HasSubstr("(ms): 1000.0"));
}

TEST(TrainingLog, NanHasNoSignAsInPython) {
  TrainingLog log(megatron::newest_megatron_version());
  log.add({{"lm loss", 8.0F}}, false);
  IterationFigures figures = tutorial();
  figures.grad_norm = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(log.iteration_line(figures, 1, moment()), HasSubstr("| grad norm: nan |"));
}

TEST(TrainingLog, ThroughputAndParameterNormStandWhereMegatronPutsThem) {
  TrainingLog log(megatron::newest_megatron_version());
  log.add({{"lm loss", 8.0F}}, false);
  IterationFigures figures = tutorial();
  figures.params_norm = 12.34567;
  const std::string line = log.iteration_line(figures, 1, moment(), 391.24);
  EXPECT_THAT(line, HasSubstr("(ms): 1000.0 | throughput per GPU (TFLOP/s/GPU): 391.2 | learning"));
  EXPECT_THAT(line, HasSubstr("| num zeros: 71.0 | params norm: 12.346 | number of"));
}

}  // namespace
}  // namespace meg::logging
