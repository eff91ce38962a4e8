#include "libmeg/logging/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace meg::logging {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LogLines, ArgumentsAreListedAsMegatronDoes) {
  const std::vector<std::pair<std::string, std::string>> arguments = {
      {"seed", "1234"}, {"DDP_impl", "local"}, {"bf16", "True"}};
  EXPECT_THAT(arguments_lines(arguments),
              ElementsAre("------------------------ arguments ------------------------",
                          "  bf16 ............................................ True",
                          "  DDP_impl ........................................ local",
                          "  seed ............................................ 1234",
                          "-------------------- end of arguments ---------------------"));
}

TEST(LogLines, AnEvaluationDuringTrainingIsMegatrons) {
  const std::string dashes(94, '-');
  EXPECT_THAT(validation_lines(Evaluation::kDuringTraining, 50, {{"lm loss", 8.8895397F}}),
              ElementsAre(dashes,
                          " validation loss at iteration 50 | lm loss value: 8.889540E+00 | lm "
                          "loss PPL: 7.255679E+03 | ",
                          dashes));
}

TEST(LogLines, FinalEvaluationsNameTheirSet) {
  const Losses losses = {{"lm loss", 1.0F}};
  EXPECT_EQ(validation_lines(Evaluation::kFinalValidation, 1000, losses)[1],
            " validation loss at iteration 1000 on validation set | lm loss value: 1.000000E+00 | "
            "lm loss PPL: 2.718282E+00 | ");
  EXPECT_EQ(validation_lines(Evaluation::kFinalTest, 1000, losses)[1],
            " validation loss at iteration 1000 on test set | lm loss value: 1.000000E+00 | lm "
            "loss PPL: 2.718282E+00 | ");
}

TEST(LogLines, NanHasNoSignAsInPython) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto lines = validation_lines(Evaluation::kDuringTraining, 1, {{"a", nan}, {"b", -nan}});
  EXPECT_EQ(
      lines[1],
      " validation loss at iteration 1 | a value: NAN | a PPL: 4.851652E+08 | b value: NAN | b "
      "PPL: 4.851652E+08 | ");
}

TEST(LogLines, TheWorldIsMegatrons) {
  EXPECT_EQ(world_size_line({.world = 2, .data = 2}),
            "using world size: 2, data-parallel size: 2, context-parallel size: 1, hierarchical "
            "context-parallel sizes: None, tensor-model-parallel size: 1, pipeline-model-parallel "
            "size: 1");
}

TEST(LogLines, PerplexityStopsAtALossOfTwenty) {
  EXPECT_EQ(perplexity(21), perplexity(20));
  EXPECT_LT(perplexity(19), perplexity(20));
}

TEST(LogLines, TargetSizesAreMegatrons) {
  EXPECT_THAT(target_sizes_lines(16000, 1760, std::nullopt),
              ElementsAre(" > datasets target sizes (minimum size):", "    train:      16000",
                          "    validation: 1760", "    test:       None"));
}

TEST(LogLines, TimersShowTheirLeastAndMostOverTheRanksThatRan) {
  const std::vector<TimerTimes> timers = {{"forward-backward", {2.0, 1.0, 0.0}},
                                          {"optimizer", {0.0, 0.0, 0.0}},
                                          {"optimizer-clip-main-grad", {0.5, 0.5, 0.5}}};
  EXPECT_THAT(timers_lines(TimingLogOption::kMinMax, timers, 10),
              ElementsAre("(min, max) time across ranks (ms):",
                          "    forward-backward ...............................: (100.00, 200.00)",
                          "    optimizer-clip-main-grad .......................: (50.00, 50.00)"));
  EXPECT_THAT(timers_lines(TimingLogOption::kMax, timers, 10),
              ElementsAre("max time across ranks (ms):",
                          "    forward-backward ...............................: 200.00",
                          "    optimizer-clip-main-grad .......................: 50.00"));
  EXPECT_THAT(timers_lines(TimingLogOption::kAll, {timers.data(), 1}, 10),
              ElementsAre("times across ranks (ms):", "  forward-backward:", "     rank  0: 200.00",
                          "     rank  1: 100.00"));
}

TEST(LogLines, WithoutATimerThereIsNoHeading) {
  EXPECT_THAT(timers_lines(TimingLogOption::kMinMax, {}, 10), IsEmpty());
  const std::vector<TimerTimes> idle = {{"optimizer", {0.0}}};
  EXPECT_THAT(timers_lines(TimingLogOption::kAll, idle, 10), IsEmpty());
}

TEST(LogLines, MemoryIsInMegabytes) {
  constexpr int64_t kMegabyte = 1024 * 1024;
  EXPECT_EQ(memory_line(0, 10,
                        {.allocated = kMegabyte,
                         .max_allocated = 2 * kMegabyte + kMegabyte / 4,
                         .reserved = 3 * kMegabyte,
                         .max_reserved = 4 * kMegabyte}),
            "[Rank 0] (after 10 iterations) memory (MB) | allocated: 1.00 | max allocated: 2.25 | "
            "reserved: 3.00 | max reserved: 4.00");
}

TEST(LogLines, ADateStandsBehindWhatItIsOf) {
  EXPECT_EQ(datetime_line("before the start of training step", 0),
            "[before the start of training step] datetime: " + log_time(0) + " ");
}

}  // namespace
}  // namespace meg::logging
