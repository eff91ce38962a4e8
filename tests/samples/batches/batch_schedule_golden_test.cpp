// Tables of the real Megatron-LM's calculators of micro-batches.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "libmeg/samples/batches/batch_schedule.h"
#include "tests/shared_data.h"

namespace meg::samples {
namespace {

using nlohmann::json;

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

}  // namespace
}  // namespace meg::samples
