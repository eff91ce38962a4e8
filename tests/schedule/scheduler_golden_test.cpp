// Schedules of whole runs, against tables of the real Megatron-LM's scheduler and loop.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "libmeg/samples/batches/batch_schedule.h"
#include "libmeg/schedule/scheduler_flags.h"
#include "tests/train/oracle_json.h"

namespace meg::schedule {
namespace {

using nlohmann::json;

template <class T>
std::optional<T> maybe(const json& setting, const char* name) {
  if (!setting.contains(name)) return std::nullopt;
  return setting[name].get<T>();
}

SchedulerFlags flags_of(const json& setting, int64_t global_batch_size) {
  SchedulerFlags flags;
  flags.train_iters = maybe<int64_t>(setting, "train_iters");
  flags.train_samples = maybe<int64_t>(setting, "train_samples");
  flags.global_batch_size = global_batch_size;
  flags.has_rampup_batch_size = setting.contains("rampup_batch_size");
  flags.lr = setting.value("lr", 3e-4);
  flags.min_lr = setting.value("min_lr", 0.0);
  flags.lr_decay_style = *parse_lr_decay_style(setting.value("lr_decay_style", "linear"));
  flags.lr_decay_iters = maybe<int64_t>(setting, "lr_decay_iters");
  flags.lr_decay_samples = maybe<int64_t>(setting, "lr_decay_samples");
  flags.lr_wsd_decay_style =
      *parse_lr_wsd_decay_style(setting.value("lr_wsd_decay_style", "exponential"));
  flags.lr_wsd_decay_iters = maybe<int64_t>(setting, "lr_wsd_decay_iters");
  flags.lr_wsd_decay_samples = maybe<int64_t>(setting, "lr_wsd_decay_samples");
  flags.lr_warmup_fraction = maybe<double>(setting, "lr_warmup_fraction");
  flags.lr_warmup_iters = setting.value("lr_warmup_iters", 0);
  flags.lr_warmup_samples = setting.value("lr_warmup_samples", 0);
  flags.lr_warmup_init = setting.value("lr_warmup_init", 0.0);
  flags.weight_decay = setting.value("weight_decay", 0.01);
  flags.weight_decay_incr_style =
      *parse_weight_decay_incr_style(setting.value("weight_decay_incr_style", "constant"));
  // Where it is constant the tables show what follows from --weight-decay, not a flag.
  if (flags.weight_decay_incr_style != WeightDecayIncrStyle::kConstant) {
    flags.start_weight_decay = maybe<double>(setting, "start_weight_decay");
    flags.end_weight_decay = maybe<double>(setting, "end_weight_decay");
  }
  return flags;
}

/// --decrease-batch-size-if-needed is not libmeg's: its runs take the nominal sizes from a schedule
/// without micro-batches and round them down here.
bool decreases(const json& setting) { return setting.contains("decrease_batch_size_if_needed"); }

samples::BatchSchedule::Options batch_options(const json& setting) {
  samples::BatchSchedule::Options options{
      .global_batch_size = setting.value("global_batch_size", 0),
      .micro_batch_size = setting.value("micro_batch_size", 1),
      .data_parallel_size = setting.value("data_parallel_size", 1)};
  if (decreases(setting)) options.micro_batch_size = options.data_parallel_size = 1;
  if (setting.contains("rampup_batch_size")) {
    const json& rampup = setting["rampup_batch_size"];
    options.rampup = {.start = rampup[0], .increment = rampup[1], .samples = rampup[2]};
  }
  return options;
}

bool near(double found, double expected) {
  return std::abs(found - expected) <= 1e-15 * std::abs(expected);
}

megatron::FieldValue field_of(const json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

/// Runs the loop of train() as far as the table's last row and compares every row on the way.
/// Returns how many there were.
size_t compare_rows(const json& table, const samples::BatchSchedule& batches,
                    OptimizerParamScheduler& scheduler) {
  const json& setting = table["setting"];
  const int64_t divisor = setting.value("micro_batch_size", int64_t{1}) *
                          setting.value("data_parallel_size", int64_t{1});
  std::map<int64_t, bool> skipped;
  for (const json& iteration : setting.value("skipped", json::array())) skipped[iteration] = true;
  int64_t consumed = 0;
  int64_t iteration = 0;
  for (const json& row : table["rows"]) {
    for (;;) {
      ++iteration;
      const int64_t nominal = batches.batch_size_after(consumed);
      const int64_t samples = nominal / divisor * divisor;
      const bool is_row = row[0] == iteration;
      if (is_row) {
        EXPECT_EQ(consumed, row[1].get<int64_t>());
        EXPECT_TRUE(near(scheduler.lr(), row[2])) << scheduler.lr() << " for " << row;
        EXPECT_TRUE(near(scheduler.weight_decay(), row[3])) << scheduler.weight_decay();
        EXPECT_EQ(nominal, row[4].get<int64_t>());
        EXPECT_EQ(samples / divisor, row[5].get<int64_t>());
        EXPECT_EQ(skipped.contains(iteration), row[6] == 1);
      }
      if (!skipped.contains(iteration)) scheduler.step(samples);
      consumed += samples;
      if (!is_row) continue;
      EXPECT_EQ(consumed, row[7].get<int64_t>());
      EXPECT_TRUE(near(scheduler.lr(), row[8])) << scheduler.lr() << " after " << row;
      break;
    }
  }
  return table["rows"].size();
}

TEST(SchedulerGolden, EveryRowOfEverySettingIsMegatrons) {
  MEG_REQUIRE_SHARED("oracle/training");
  size_t settings = 0;
  size_t refused = 0;
  size_t rows = 0;
  const json all = test::oracle_json("schedules.json")["tables"];
  for (const auto& [revision, tables] : all.items()) {
    for (const json& table : tables) {
      const json& setting = table["setting"];
      SCOPED_TRACE(revision + " " + setting.dump());
      ++settings;
      const auto batches = samples::BatchSchedule::create(batch_options(setting));
      auto scheduler = get_optimizer_param_scheduler(
          flags_of(setting, batches.has_value() ? batches->global_batch_size() : 1));
      if (table.contains("error") || table.contains("stops_with")) {
        EXPECT_FALSE(batches.has_value() && scheduler.has_value());
        ++refused;
        continue;
      }
      ASSERT_TRUE(batches.has_value()) << batches.error().message();
      ASSERT_TRUE(scheduler.has_value()) << scheduler.error().message();
      if (setting.contains("train_samples")) {
        EXPECT_EQ(batches->steps_for(setting["train_samples"], revision == "6ef5bdc"),
                  table["train_iters"].get<int64_t>());
      }
      EXPECT_EQ(megatron::FieldValue(std::visit([](auto v) { return megatron::FieldValue(v); },
                                                scheduler->options().lr_warmup_steps)),
                field_of(table["lr_warmup_steps"]));
      rows += compare_rows(table, *batches, *scheduler);
      for (const auto& [name, value] : scheduler->state_dict()) {
        EXPECT_EQ(value, field_of(table["final_state"][name])) << name;
      }
      EXPECT_EQ(scheduler->state_dict().size(), table["final_state"].size());
    }
  }
  EXPECT_EQ(settings, 101u);
  EXPECT_GT(refused, 20u);
  EXPECT_GT(rows, 3000u);
}

}  // namespace
}  // namespace meg::schedule
