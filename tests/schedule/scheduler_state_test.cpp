// Resuming: which of the checkpoint's values and of the flags' a schedule continues with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "libmeg/schedule/optimizer_param_scheduler.h"

namespace meg::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Options = OptimizerParamScheduler::Options;
using State = std::map<std::string, megatron::FieldValue, std::less<>>;

Options usual() {
  return {.max_lr = 1.5e-4,
          .min_lr = 1e-5,
          .lr_warmup_steps = 25600.0,
          .lr_decay_steps = int64_t{2560000},
          .lr_decay_style = LrDecayStyle::kCosine,
          .start_wd = 0.01,
          .end_wd = 0.01,
          .wd_incr_steps = int64_t{4000000}};
}

State state_of(const OptimizerParamScheduler& scheduler) {
  State state;
  for (const auto& [name, value] : scheduler.state_dict()) state[name] = value;
  return state;
}

megatron::FieldLookup lookup(const State& state) {
  return [&state](std::string_view name) -> std::optional<megatron::FieldValue> {
    const auto found = state.find(name);
    if (found == state.end()) return std::nullopt;
    return found->second;
  };
}

State saved() {
  auto scheduler = *OptimizerParamScheduler::create(usual());
  scheduler.step(12800);
  return state_of(scheduler);
}

TEST(SchedulerState, AResumedScheduleSaysEachValueInMegatronsWords) {
  auto scheduler = *OptimizerParamScheduler::create(usual());
  const State state = saved();
  const auto lines = scheduler.load_state_dict(lookup(state));
  ASSERT_TRUE(lines.has_value()) << lines.error().message();
  EXPECT_THAT(*lines,
              ElementsAre(" > using checkpoint value 0.00015 for learning rate",
                          " > using checkpoint value 1e-05 for minimum learning rate",
                          " > using checkpoint value 25600.0 for warmup iterations",
                          " > using checkpoint value 2560000 for total number of iterations",
                          " > using checkpoint value cosine for learning rate decay style",
                          " > using checkpoint value 0.01 for start weight decay",
                          " > using checkpoint value 0.01 for end weight decay",
                          " > using checkpoint value 4000000 for total number of weight decay "
                          "iterations",
                          " > using checkpoint value constant for weight decay incr style"));
  EXPECT_EQ(scheduler.num_steps(), 12800);
  EXPECT_DOUBLE_EQ(scheduler.lr(), 0.75e-4);
  EXPECT_EQ(state_of(scheduler), state);
}

TEST(SchedulerState, ADifferingFlagIsAnErrorThatNamesBothValuesAndLeavesTheScheduleAlone) {
  Options options = usual();
  options.max_lr = 2e-4;
  auto scheduler = *OptimizerParamScheduler::create(options);
  const State state = saved();
  const auto lines = scheduler.load_state_dict(lookup(state));
  ASSERT_FALSE(lines.has_value());
  EXPECT_EQ(lines.error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(lines.error().message(),
            "opt_param_scheduler: learning rate: expected the checkpoint's 0.00015, found 0.0002 "
            "in the flags (`use_checkpoint_opt_param_scheduler` uses the checkpoint's, "
            "`override_opt_param_scheduler` the flags')");
  EXPECT_EQ(scheduler.num_steps(), 0);
}

TEST(SchedulerState, AnIntegerAndAFloatOfOneValueDoNotDiffer) {
  Options options = usual();
  options.lr_warmup_steps = int64_t{25600};
  auto scheduler = *OptimizerParamScheduler::create(options);
  const State state = saved();
  EXPECT_TRUE(scheduler.load_state_dict(lookup(state)).has_value());
  EXPECT_EQ(scheduler.options().lr_warmup_steps, SampleCount(25600.0));
}

TEST(SchedulerState, UseCheckpointTakesTheCheckpointsValues) {
  Options options = usual();
  options.max_lr = 2e-4;
  options.lr_decay_style = LrDecayStyle::kLinear;
  options.start_wd = options.end_wd = 0.5;
  options.use_checkpoint_opt_param_scheduler = true;
  auto scheduler = *OptimizerParamScheduler::create(options);
  const State state = saved();
  ASSERT_TRUE(scheduler.load_state_dict(lookup(state)).has_value());
  EXPECT_EQ(state_of(scheduler), state);
  EXPECT_EQ(scheduler.weight_decay(), 0.01);
}

TEST(SchedulerState, OverrideKeepsTheFlagsValuesAndTakesTheSteps) {
  Options options = usual();
  options.max_lr = 2e-4;
  options.override_opt_param_scheduler = true;
  auto scheduler = *OptimizerParamScheduler::create(options);
  const State state = saved();
  const auto lines = scheduler.load_state_dict(lookup(state));
  ASSERT_TRUE(lines.has_value());
  EXPECT_EQ(lines->front(), " > overriding learning rate value to 0.0002");
  EXPECT_EQ(lines->back(), " > overriding weight decay incr style value to constant");
  EXPECT_DOUBLE_EQ(scheduler.lr(), 1e-4);
}

TEST(SchedulerState, NamesOfOlderRevisionsAreKnown) {
  auto scheduler = *OptimizerParamScheduler::create(usual());
  const State state = {{"start_lr", 1.5e-4},      {"min_lr", 1e-5},
                       {"warmup_iter", 25600.0},  {"num_iters", int64_t{12800}},
                       {"decay_style", "cosine"}, {"end_iter", int64_t{2560000}}};
  const auto lines = scheduler.load_state_dict(lookup(state));
  ASSERT_TRUE(lines.has_value()) << lines.error().message();
  EXPECT_EQ(lines->size(), 5u);
  EXPECT_EQ(scheduler.num_steps(), 12800);
}

TEST(SchedulerState, MissingAndOddFieldsAreNamed) {
  const auto error_with = [](const std::string& name, std::optional<megatron::FieldValue> value) {
    Options options = usual();
    options.use_checkpoint_opt_param_scheduler = true;
    auto scheduler = *OptimizerParamScheduler::create(options);
    State state = saved();
    state.erase(name);
    if (value) state[name] = *value;
    const auto lines = scheduler.load_state_dict(lookup(state));
    EXPECT_FALSE(lines.has_value());
    EXPECT_EQ(lines.error().code(), StatusCode::kCorruption);
    return lines.error().message();
  };
  EXPECT_EQ(error_with("num_steps", std::nullopt),
            "opt_param_scheduler: expected a field num_steps, found none");
  EXPECT_EQ(error_with("min_lr", "low"),
            "opt_param_scheduler: minimum learning rate: expected a number, found \"low\"");
  EXPECT_EQ(error_with("num_steps", int64_t{-1}),
            "opt_param_scheduler: num_steps: expected 0 to 2^53 samples, found -1");
  EXPECT_EQ(error_with("lr_decay_steps", int64_t{0}),
            "opt_param_scheduler: learning rate decay: expected 1 to 2^53 samples, found 0");
  EXPECT_THAT(error_with("lr_decay_style", "steep"), HasSubstr("found \"steep\""));
  EXPECT_THAT(error_with("max_lr", std::numeric_limits<double>::infinity()),
              HasSubstr("expected a finite number"));
}

}  // namespace
}  // namespace meg::schedule
