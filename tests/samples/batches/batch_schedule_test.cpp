#include "libmeg/samples/batches/batch_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace meg::samples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BatchSchedule, WithoutAGlobalBatchSizeAStepIsOneMicroBatchOfEachRank) {
  const auto schedule = BatchSchedule::create({.micro_batch_size = 4, .data_parallel_size = 8});
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(schedule->global_batch_size(), 32);
  EXPECT_EQ(schedule->consumed_before(1), 0);
  EXPECT_EQ(schedule->consumed_before(11), 320);
  EXPECT_EQ(schedule->step_of(319), 10);
  EXPECT_EQ(schedule->steps_for(100), 3);
}

/// update() of Megatron's calculator, step by step.
TEST(BatchSchedule, ClosedFormsAgreeWithWalkingStepByStep) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t start = 1 + random() % 20;
    const int64_t increment = 1 + random() % 9;
    const int64_t increments = 1 + random() % 30;
    const int64_t samples = 1 + random() % 3000;
    const int64_t global = start + increment * increments;
    const auto schedule = BatchSchedule::create(
        {.global_batch_size = global, .rampup = BatchRampup{start, increment, samples}});
    ASSERT_TRUE(schedule.has_value()) << schedule.error().message();
    const double each = static_cast<double>(samples) / static_cast<double>(increments);
    int64_t consumed = 0;
    for (int64_t step = 1; step < 400; ++step) {
      const int64_t batch_size =
          consumed > samples
              ? global
              : start + static_cast<int64_t>(static_cast<double>(consumed) / each) * increment;
      ASSERT_EQ(schedule->batch_size_after(consumed), batch_size);
      ASSERT_EQ(schedule->consumed_before(step), consumed);
      ASSERT_EQ(schedule->step_of(consumed), step);
      ASSERT_EQ(schedule->step_of(consumed + batch_size - 1), step);
      consumed += batch_size;
    }
  }
}

TEST(BatchSchedule, BatchesChangeWithTheFirstStepThatBeginsThere) {
  const auto schedule = BatchSchedule::create({.micro_batch_size = 2,
                                               .changes = {{.samples = 8, .batch_size = 4},
                                                           {.samples = 0, .batch_size = 6},
                                                           {.samples = 17, .batch_size = 2}}});
  ASSERT_TRUE(schedule.has_value()) << schedule.error().message();
  std::vector<int64_t> consumed;
  for (int64_t step = 1; step <= 6; ++step) consumed.push_back(schedule->consumed_before(step));
  EXPECT_THAT(consumed, ElementsAre(0, 6, 12, 16, 20, 22));
  EXPECT_EQ(schedule->step_of(19), 4);
  EXPECT_EQ(schedule->global_batch_size(), 2);  // what Megatron counts evaluations with
}

TEST(BatchSchedule, ChangesCountTheStepInWhichTheSamplesEnd) {
  const auto schedule = BatchSchedule::create(
      {.changes = {{.samples = 0, .batch_size = 2}, {.samples = 4, .batch_size = 5}}});
  ASSERT_TRUE(schedule.has_value()) << schedule.error().message();
  std::vector<int64_t> steps;
  for (const int64_t samples : {-1, 0, 1, 4, 5, 9, 10})
    steps.push_back(schedule->steps_for(samples));
  EXPECT_THAT(steps, ElementsAre(0, 0, 1, 2, 3, 3, 4));
}

TEST(BatchSchedule, HugeStepsSaturateInsteadOfOverflowing) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto schedule = BatchSchedule::create({.global_batch_size = int64_t{1} << 40});
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(schedule->consumed_before(kMost), kMost);
  EXPECT_EQ(schedule->step_of(kMost), (kMost >> 40) + 1);
}

struct Refusal {
  BatchSchedule::Options options;
  std::string message;
};

TEST(BatchSchedule, RefusesBatchesThatDoNotDivideWithTheNumbers) {
  const std::vector<Refusal> refusals = {
      {{.global_batch_size = 7, .micro_batch_size = 2},
       "step 1: global batch size: expected a multiple of 2 (micro batch size 2 times "
       "data-parallel "
       "size 1), found 7"},
      {{.global_batch_size = 16, .micro_batch_size = 4, .rampup = BatchRampup{8, 2, 100}},
       "global batch size: expected a multiple of 4"},
      {{.global_batch_size = 40, .rampup = BatchRampup{16, 10, 300}},
       "`rampup_batch_size`: increment: expected a divisor of 24 (global batch size 40 less start "
       "16), found 10"},
      {{.global_batch_size = 16, .rampup = BatchRampup{16, 16, 300}},
       "`rampup_batch_size`: start: expected less than the global batch size 16, found 16"},
      {{.global_batch_size = 32, .rampup = BatchRampup{16, 16, 0}},
       "`rampup_batch_size`: samples: expected 1 to"},
      {{.global_batch_size = 32, .rampup = BatchRampup{0, 16, 5}}, "start: expected 1 to"},
      {{.changes = {{.samples = 3, .batch_size = 2}}},
       "`step_batch_size_schedule`: expected the first batch size at 0 samples, found 3"},
      {{.changes = {{.samples = 0, .batch_size = 2}, {.samples = 0, .batch_size = 4}}},
       "`step_batch_size_schedule`: expected one batch size at 0 samples, found"},
      {{.changes = {{.samples = 0, .batch_size = 0}}}, "batch size: expected 1 to"},
      {{.micro_batch_size = 2,
        .changes = {{.samples = 0, .batch_size = 2}, {.samples = 4, .batch_size = 3}}},
       "step 3: global batch size: expected a multiple of 2"},
      {{.global_batch_size = 32, .rampup = BatchRampup{16, -1, 5}}, "increment: expected 1 to"},
      {{.global_batch_size = -1}, "`global_batch_size`: expected 0 to"},
      {{.micro_batch_size = 0}, "`micro_batch_size`: expected 1 to"},
      {{.data_parallel_size = 0}, "data-parallel size: expected 1 to"},
      {{.micro_batch_size = int64_t{1} << 40, .data_parallel_size = int64_t{1} << 40},
       "micro batch size times data-parallel size: expected 1 to"},
      {{.global_batch_size = 1 + (int64_t{1} << 22), .rampup = BatchRampup{1, 1, int64_t{1} << 53}},
       "`rampup_batch_size`: expected at most 65536 batch sizes"},
  };
  for (const Refusal& refusal : refusals) {
    const auto schedule = BatchSchedule::create(refusal.options);
    ASSERT_FALSE(schedule.has_value()) << refusal.message;
    EXPECT_EQ(schedule.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(schedule.error().message(), HasSubstr(refusal.message));
  }
}

TEST(BatchSchedule, RefusesMicroBatchesThatDoNotFillAnInterleavedPipeline) {
  const auto check = [](const BatchSchedule::Options& options, int64_t group = 4) {
    const auto schedule = BatchSchedule::create(options);
    return std::string(schedule->check_micro_batches_fill(/*stages=*/4, group).message());
  };
  EXPECT_EQ(check({.global_batch_size = 16, .micro_batch_size = 2, .data_parallel_size = 2}), "");
  EXPECT_EQ(check({.global_batch_size = 12, .micro_batch_size = 2}),
            "`global_batch_size`: expected a number of micro-batches that is a multiple of the 4 "
            "pipeline stages with virtual stages, found 12 samples: 6 micro-batches");
  EXPECT_EQ(check({.global_batch_size = 16, .rampup = BatchRampup{4, 4, 100}}), "");
  EXPECT_THAT(check({.global_batch_size = 16, .rampup = BatchRampup{4, 6, 100}}),
              HasSubstr("`rampup_batch_size`: expected a number of micro-batches"));
  EXPECT_THAT(check({.global_batch_size = 16, .rampup = BatchRampup{2, 7, 100}}),
              HasSubstr("4 pipeline stages with virtual stages, found 2 samples"));
  EXPECT_EQ(check({.global_batch_size = 6}, 6), "");
  EXPECT_EQ(check({.global_batch_size = 11}, 6),
            "");  // 6, and 5 left over
  EXPECT_EQ(check({.global_batch_size = 15}, 6),
            "`global_batch_size`: expected a number of micro-batches that is at least a group of 6 "
            "and has a remainder of 0 or at least 4, found 15 samples: 15 micro-batches");
  EXPECT_THAT(check({.global_batch_size = 5}, 6), HasSubstr("at least a group of 6"));
  EXPECT_EQ(check({.global_batch_size = 6}, 3),
            "`microbatch_group_size_per_virtual_pipeline_stage`: expected at least the 4 pipeline "
            "stages, found 3");
}

}  // namespace
}  // namespace meg::samples
