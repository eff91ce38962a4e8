// The learning rate and loss scale of every step of real training runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "libmeg/schedule/grad_scaler.h"
#include "libmeg/schedule/scheduler_flags.h"
#include "tests/train/oracle_json.h"

namespace meg::schedule {
namespace {

using nlohmann::json;

/// The command line of a run: flag -> its first value ("" where it has none).
class Arguments {
 public:
  explicit Arguments(const json& run) : words_(run["args"].get<std::vector<std::string>>()) {}

  bool has(const std::string& flag) const {
    return std::find(words_.begin(), words_.end(), flag) != words_.end();
  }

  const std::string& text(const std::string& flag) const {
    return *std::next(std::find(words_.begin(), words_.end(), flag));
  }

  double real(const std::string& flag, double otherwise) const {
    return has(flag) ? std::stod(text(flag)) : otherwise;
  }

  std::optional<double> maybe_real(const std::string& flag) const {
    if (!has(flag)) return std::nullopt;
    return std::stod(text(flag));
  }

  std::optional<int64_t> maybe_count(const std::string& flag) const {
    if (!has(flag)) return std::nullopt;
    return std::stoll(text(flag));
  }

 private:
  std::vector<std::string> words_;
};

SchedulerFlags flags_of(const Arguments& arguments) {
  SchedulerFlags flags;
  flags.train_iters = arguments.maybe_count("--train-iters");
  flags.train_samples = arguments.maybe_count("--train-samples");
  flags.global_batch_size = *arguments.maybe_count("--global-batch-size");
  flags.has_rampup_batch_size = arguments.has("--rampup-batch-size");
  flags.lr = arguments.maybe_real("--lr");
  flags.min_lr = arguments.real("--min-lr", 0);
  if (arguments.has("--lr-decay-style")) {
    flags.lr_decay_style = *parse_lr_decay_style(arguments.text("--lr-decay-style"));
  }
  flags.lr_decay_iters = arguments.maybe_count("--lr-decay-iters");
  flags.lr_decay_samples = arguments.maybe_count("--lr-decay-samples");
  flags.lr_warmup_fraction = arguments.maybe_real("--lr-warmup-fraction");
  flags.lr_warmup_iters = arguments.maybe_count("--lr-warmup-iters").value_or(0);
  flags.lr_warmup_samples = arguments.maybe_count("--lr-warmup-samples").value_or(0);
  flags.weight_decay = arguments.real("--weight-decay", 0.01);
  flags.start_weight_decay = arguments.maybe_real("--start-weight-decay");
  flags.end_weight_decay = arguments.maybe_real("--end-weight-decay");
  if (arguments.has("--weight-decay-incr-style")) {
    flags.weight_decay_incr_style =
        *parse_weight_decay_incr_style(arguments.text("--weight-decay-incr-style"));
  }
  return flags;
}

bool near(double found, double expected) {
  return std::abs(found - expected) <= 1e-15 * std::abs(expected);
}

/// No step of these runs was skipped before the first that their log holds, so the samples consumed
/// until then are the scheduler's steps.
void follow(const json& log, OptimizerParamScheduler& scheduler) {
  const json& iterations = log["iterations"];
  scheduler.step(iterations[0]["scheduler_num_steps"]);
  int64_t consumed = scheduler.num_steps();
  for (const json& iteration : iterations) {
    SCOPED_TRACE("iteration " + iteration["iteration"].dump());
    EXPECT_EQ(scheduler.num_steps(), iteration["scheduler_num_steps"].get<int64_t>());
    EXPECT_TRUE(near(scheduler.lr(), iteration["lr"])) << scheduler.lr();
    EXPECT_TRUE(near(scheduler.weight_decay(), iteration["weight_decay"]));
    const int64_t after = iteration["consumed_train_samples"];
    if (iteration["skipped"] == 0) scheduler.step(after - consumed);
    consumed = after;
    EXPECT_TRUE(near(scheduler.lr(), iteration["lr_logged"])) << scheduler.lr();
  }
}

TEST(RunGolden, EveryStepOfEveryRunHasMegatronsLearningRateAndWeightDecay) {
  MEG_REQUIRE_SHARED("oracle/training");
  size_t runs = 0;
  const json manifest = test::oracle_json("manifest.json");
  for (const json& run : manifest["runs"]) {
    const std::string name = run["name"];
    SCOPED_TRACE(name);
    auto scheduler = get_optimizer_param_scheduler(flags_of(Arguments(run)));
    ASSERT_TRUE(scheduler.has_value()) << scheduler.error().message();
    follow(test::oracle_json(name + "/log.json"), *scheduler);
    ++runs;
  }
  EXPECT_GE(runs, 15u);
}

megatron::FieldValue field_of(const json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

/// The arguments of the run `name`, out of the manifest.
Arguments arguments_of(const std::string& name) {
  const json manifest = test::oracle_json("manifest.json");
  for (const json& run : manifest["runs"]) {
    if (run["name"] == name) return Arguments(run);
  }
  ADD_FAILURE() << "no run " << name;
  return Arguments(json{{"args", json::array()}});
}

TEST(RunGolden, AResumedRunTakesTheStateOfItsCheckpointAndSavesTheSame) {
  MEG_REQUIRE_SHARED("oracle/training");
  const json files = test::oracle_json("gpt_fp32/structure.json");
  const json state = files["mid/iter_0000010/mp_rank_00/model_optim_rng.pt"]["opt_param_scheduler"];
  auto scheduler = get_optimizer_param_scheduler(flags_of(arguments_of("gpt_fp32_resumed")));
  ASSERT_TRUE(scheduler.has_value()) << scheduler.error().message();
  const auto lines = scheduler->load_state_dict(
      [&state](std::string_view name) -> std::optional<megatron::FieldValue> {
        const auto found = state.find(name);
        if (found == state.end()) return std::nullopt;
        return field_of(*found);
      });
  ASSERT_TRUE(lines.has_value()) << lines.error().message();
  EXPECT_EQ((*lines)[2], " > using checkpoint value 32.0 for warmup iterations");
  const auto saved = scheduler->state_dict();
  EXPECT_EQ(saved.size(), state.size());
  for (const auto& [name, value] : saved) EXPECT_EQ(value, field_of(state[name])) << name;
  const json log = test::oracle_json("gpt_fp32_resumed/log.json");
  EXPECT_TRUE(near(scheduler->lr(), log["iterations"][0]["lr"]));
}

TEST(RunGolden, EveryStepOfTheFp16RunHasMegatronsLossScale) {
  MEG_REQUIRE_SHARED("oracle/training");
  const Arguments arguments = arguments_of("gpt_fp16");
  const auto scaler = get_grad_scaler(
      arguments.has("--fp16"), arguments.has("--bf16"), arguments.maybe_real("--loss-scale"),
      {.initial_scale = arguments.real("--initial-loss-scale", 4294967296.0),
       .min_scale = arguments.real("--min-loss-scale", 1),
       .growth_interval = arguments.real("--loss-scale-window", 1000),
       .hysteresis = arguments.maybe_count("--hysteresis").value_or(2)});
  ASSERT_TRUE(scaler.has_value()) << scaler.error().message();
  GradScaler& scale = **scaler;
  const json log = test::oracle_json("gpt_fp16/log.json");
  for (const json& iteration : log["iterations"]) {
    SCOPED_TRACE("iteration " + iteration["iteration"].dump());
    EXPECT_EQ(scale.scale(), iteration["loss_scale"].get<float>());
    EXPECT_EQ(scale.state_dict()->growth_tracker, iteration["before_growth_tracker"]);
    EXPECT_EQ(scale.state_dict()->hysteresis_tracker, iteration["before_hysteresis_tracker"]);
    scale.update(iteration["skipped"] != 0);
    EXPECT_EQ(scale.scale(), iteration["loss_scale_logged"].get<float>());
    EXPECT_EQ(scale.state_dict()->growth_tracker, iteration["after_growth_tracker"]);
    EXPECT_EQ(scale.state_dict()->hysteresis_tracker, iteration["after_hysteresis_tracker"]);
  }
}

}  // namespace
}  // namespace meg::schedule
