// The batch size of every step, against tables of the real Megatron-LM's calculators.

#include "libmeg/dataset/samples/batch_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/shared_data.h"

namespace meg {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

BatchSchedule::Options options_of(const json& setting) {
  BatchSchedule::Options options{.global_batch_size = setting.value("global_batch_size", 0),
                                 .micro_batch_size = setting.value("micro_batch_size", 1),
                                 .data_parallel_size = setting.value("data_parallel_size", 1)};
  if (setting.contains("rampup_batch_size")) {
    const json& rampup = setting["rampup_batch_size"];
    options.rampup = {.start = rampup[0], .increment = rampup[1], .samples = rampup[2]};
  }
  return options;
}

void compare_rows(const json& table, const BatchSchedule& schedule, int64_t micro_batch_size,
                  int64_t data_parallel_size) {
  for (const json& row : table["rows"]) {
    const int64_t step = row[0];
    const int64_t consumed = row[1];
    const int64_t batch_size = row[4];
    EXPECT_EQ(schedule.consumed_before(step), consumed);
    EXPECT_EQ(schedule.batch_size_after(consumed), batch_size);
    EXPECT_EQ(batch_size, row[5].get<int64_t>() * micro_batch_size * data_parallel_size);
    EXPECT_EQ(schedule.consumed_before(step + 1), row[7].get<int64_t>());
    EXPECT_EQ(schedule.step_of(consumed), step);
    EXPECT_EQ(schedule.step_of(consumed + batch_size - 1), step);
  }
}

/// Settings that are refused for other flags than those of batches.
bool about_batches(const json& table) {
  const auto& options = table["options"];
  const std::string error = table.value("error", "");
  return error.find("batch size") != std::string::npos ||
         error.find("ZeroDivision") != std::string::npos ||
         (!error.empty() && table["setting"].contains("rampup_batch_size") &&
          table["setting"].contains("train_samples") && !options.empty());
}

TEST(BatchScheduleGolden, EveryStepHasMegatronsBatchSize) {
  MEG_REQUIRE_SHARED("oracle/training");
  std::ifstream file(test::shared_path("oracle/training/schedules.json"));
  const json tables = json::parse(file)["tables"];
  int compared = 0;
  int refused = 0;
  for (const auto& [revision, settings] : tables.items()) {
    for (const json& table : settings) {
      const json& setting = table["setting"];
      SCOPED_TRACE(revision + " " + setting.dump());
      if (setting.value("decrease_batch_size_if_needed", false)) continue;
      const auto options = options_of(setting);
      const auto schedule = BatchSchedule::create(options);
      if (about_batches(table) || table.contains("stops_with")) {
        EXPECT_FALSE(schedule.has_value());
        ++refused;
        continue;
      }
      ASSERT_TRUE(schedule.has_value()) << schedule.error().message();
      if (table.contains("error")) continue;
      compare_rows(table, *schedule, options.micro_batch_size, options.data_parallel_size);
      if (setting.contains("train_samples")) {
        EXPECT_EQ(schedule->steps_for(setting["train_samples"], revision == "6ef5bdc"),
                  table["train_iters"].get<int64_t>());
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 60);
  EXPECT_GE(refused, 10);
}

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
       "--rampup-batch-size: increment: expected a divisor of 24 (global batch size 40 less start "
       "16), found 10"},
      {{.global_batch_size = 16, .rampup = BatchRampup{16, 16, 300}},
       "--rampup-batch-size: start: expected less than the global batch size 16, found 16"},
      {{.global_batch_size = 32, .rampup = BatchRampup{16, 16, 0}},
       "--rampup-batch-size: samples: expected 1 to"},
      {{.global_batch_size = 32, .rampup = BatchRampup{0, 16, 5}}, "start: expected 1 to"},
      {{.global_batch_size = 32, .rampup = BatchRampup{16, -1, 5}}, "increment: expected 1 to"},
      {{.global_batch_size = -1}, "--global-batch-size: expected 0 to"},
      {{.micro_batch_size = 0}, "--micro-batch-size: expected 1 to"},
      {{.data_parallel_size = 0}, "data-parallel size: expected 1 to"},
      {{.micro_batch_size = int64_t{1} << 40, .data_parallel_size = int64_t{1} << 40},
       "micro batch size times data-parallel size: expected 1 to"},
      {{.global_batch_size = 1 + (int64_t{1} << 22), .rampup = BatchRampup{1, 1, int64_t{1} << 53}},
       "--rampup-batch-size: expected at most 65536 batch sizes"},
  };
  for (const Refusal& refusal : refusals) {
    const auto schedule = BatchSchedule::create(refusal.options);
    ASSERT_FALSE(schedule.has_value()) << refusal.message;
    EXPECT_EQ(schedule.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(schedule.error().message(), HasSubstr(refusal.message));
  }
}

}  // namespace
}  // namespace meg
