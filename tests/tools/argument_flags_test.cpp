#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "tools/common/flags/flags.h"

namespace meg::tools {
namespace {

using megatron::ArgumentArity;
using megatron::ArgumentFamily;
using megatron::ArgumentRow;
using megatron::ArgumentType;
using megatron::ArgumentValues;
using megatron::Effect;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A row without revisions; the rest as Megatron has it.
struct RowOf {
  std::string_view flag, other_names, dest;
  megatron::ArgumentArity arity;
  megatron::ArgumentType type;
  std::string_view default_value, stored, choices;
  megatron::Effect effect;
  std::string_view reason, metavar, range, help;

  operator megatron::ArgumentRow() const {  // NOLINT(google-explicit-constructor)
    return {.family = megatron::ArgumentFamily::kTraining,
            .flag = flag,
            .other_names = other_names,
            .dest = dest,
            .older_dests = "",
            .arity = arity,
            .type = type,
            .default_value = default_value,
            .stored = stored,
            .choices = choices,
            .supported = "",
            .since = "v2.6",
            .until = "core_v0.19.0",
            .effect = effect,
            .reason = reason,
            .metavar = metavar,
            .range = range,
            .help = help};
  }
};

constexpr auto kSwitch = megatron::ArgumentArity::kSwitch;
constexpr auto kValue = megatron::ArgumentArity::kValue;
constexpr auto kList = megatron::ArgumentArity::kList;
constexpr auto kBool = megatron::ArgumentType::kBool;
constexpr auto kInteger = megatron::ArgumentType::kInteger;
constexpr auto kReal = megatron::ArgumentType::kReal;
constexpr auto kText = megatron::ArgumentType::kText;

const megatron::ArgumentRow kRows[] = {
    RowOf{"--num-layers", "", "num_layers", kValue, kInteger, "None", "", "",
          megatron::Effect::kModel, "", "N", "1..", "transformer layers"},
    RowOf{"--norm-epsilon", "--layernorm-epsilon", "norm_epsilon", kValue, kReal, "1e-05", "", "",
          megatron::Effect::kModel, "", "EPS", "0..1", "of norms"},
    RowOf{"--disable-bias-linear", "", "add_bias_linear", kSwitch, kBool, "True", "False", "",
          megatron::Effect::kModel, "", "", "", "no biases"},
    RowOf{"--num-experts", "", "num_experts", kValue, kInteger, "None", "", "",
          megatron::Effect::kModel, "", "", "", ""},
    RowOf{"--squared-relu", "", "squared_relu", kSwitch, kBool, "False", "True", "",
          megatron::Effect::kModel, "", "", "", ""},
    RowOf{"--moe-aux-loss-coeff", "", "moe_aux_loss_coeff", kList, kReal, "0.0", "", "",
          megatron::Effect::kOptimizer, "", "", "", ""},
    RowOf{"--data-path", "", "data_path", kList, kText, "None", "", "", megatron::Effect::kData, "",
          "PREFIX...", "", "datasets"},
    RowOf{"--fim-rate", "", "fim_rate", kValue, kReal, "0.5", "", "", megatron::Effect::kData, "",
          "", "", ""},
    RowOf{"--lr", "", "lr", kValue, kReal, "None", "", "", megatron::Effect::kSchedule, "", "LR",
          "0..", "highest learning rate"},
    RowOf{"--min-lr", "", "min_lr", kValue, kReal, "0.0", "", "", megatron::Effect::kSchedule, "",
          "LR", "", "lowest"},
    RowOf{"--lr-decay-style", "", "lr_decay_style", kValue, kText, "'linear'", "",
          "constant linear cosine", megatron::Effect::kSchedule, "", "STYLE", "", "how it falls"},
    RowOf{"--lr-warmup-fraction", "(--warmup)", "lr_warmup_fraction", kValue, kReal, "None", "", "",
          megatron::Effect::kSchedule, "", "SHARE", "", "of the decay"},
    RowOf{"--profile-step-start", "", "profile_step_start", kValue, kInteger, "10", "", "",
          megatron::Effect::kNone, "profiling", "", "", ""},
    RowOf{"--profile-ranks", "", "profile_ranks", kList, kInteger, "[0]", "", "",
          megatron::Effect::kNone, "profiling", "", "", ""},
    RowOf{"--wandb-project", "", "wandb_project", kValue, kText, "''", "", "",
          megatron::Effect::kNone, "no W&B is written", "", "", ""},
    RowOf{"--seed", "", "seed", kValue, kInteger, "1234", "", "", megatron::Effect::kModel, "", "N",
          "0..", "of random numbers"},
};

/// A program that trains, or one that does not, with a flag of its own.
class ArgumentFlagsTest : public testing::Test {
 protected:
  void declare(ArgumentScope scope) {
    flags_.group("Own");
    flags_.value("--seed", &seed_, "N", "its own seed");
    flags_.arguments(kRows, scope, &values_);
  }

  void declare_trainer() {
    declare({.reads = {"num_layers", "norm_epsilon", "add_bias_linear", "data_path", "lr", "min_lr",
                       "lr_decay_style", "lr_warmup_fraction"},
             .required = {"num_layers", "lr"},
             .idle = {},
             .idle_fields = {}});
  }

  void declare_evaluator() {
    declare({.reads = {"num_layers"},
             .required = {},
             .idle = {{megatron::Effect::kSchedule, "nothing is trained here"}},
             .idle_fields = {}});
  }

  std::optional<int> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    out_.str("");
    err_.str("");
    return flags_.parse(static_cast<int>(arguments.size()), arguments.data(), out_, err_);
  }

  std::optional<megatron::FieldValue> field(std::string_view dest) const {
    return values_.field(dest);
  }

  Flags flags_{"program", "does something"};
  megatron::ArgumentValues values_;
  std::optional<int64_t> seed_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(ArgumentFlagsTest, ValuesGoToTheFieldsByType) {
  declare_trainer();
  EXPECT_EQ(parse({"--num-layers", "24", "--lr=1", "--layernorm-epsilon", "1e-6", "--data-path",
                   "0.5", "a", "0.5", "b", "--disable-bias-linear", "--lr-decay-style", "cosine"}),
            std::nullopt);
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(field("num_layers"), megatron::FieldValue(int64_t{24}));
  EXPECT_EQ(field("lr"), megatron::FieldValue(1.0));
  EXPECT_EQ(field("norm_epsilon"), megatron::FieldValue(1e-6));
  EXPECT_EQ(field("add_bias_linear"), megatron::FieldValue(false));
  EXPECT_EQ(field("lr_decay_style"), megatron::FieldValue("cosine"));
  EXPECT_EQ(values_.field("data_path"),
            megatron::FieldValue(std::vector<std::string>{"0.5", "a", "0.5", "b"}));
  EXPECT_THAT(values_.given_flags(),
              ElementsAre("--num-layers", "--lr", "--norm-epsilon", "--data-path",
                          "--disable-bias-linear", "--lr-decay-style"));
  EXPECT_FALSE(values_.given("min_lr"));
  EXPECT_EQ(field("min_lr"), megatron::FieldValue(0.0));
}

TEST_F(ArgumentFlagsTest, ErrorsAreThoseOfDeclaredFlags) {
  declare_trainer();
  const auto error = [&](std::vector<const char*> arguments) {
    EXPECT_EQ(parse(std::move(arguments)), 2);
    const std::string text = err_.str();
    return text.substr(text.rfind("error:"));
  };
  EXPECT_EQ(error({"--num-layers", "two"}),
            "error: --num-layers: expected an integer, found \"two\"\n");
  EXPECT_EQ(error({"--num-layers", "0"}), "error: --num-layers: expected at least 1, found 0\n");
  EXPECT_EQ(error({"--norm-epsilon", "2"}), "error: --norm-epsilon: expected 0 to 1, found 2\n");
  EXPECT_EQ(error({"--lr", "-1"}), "error: --lr: expected at least 0, found -1\n");
  EXPECT_EQ(error({"--lr-decay-style", "cubic"}),
            "error: --lr-decay-style: expected one of constant, linear, cosine, found \"cubic\"\n");
  EXPECT_EQ(error({"--num-experts", "many"}),
            "error: --num-experts: expected an integer, found \"many\"\n")
      << "also where the program would refuse it";
  EXPECT_EQ(error({"--min-lr", "1"}), "error: --num-layers, --lr: required\n");
}

TEST_F(ArgumentFlagsTest, OlderNameIsTakenWithANote) {
  declare_trainer();
  EXPECT_EQ(parse({"--num-layers", "2", "--lr", "1", "--warmup", "0.1"}), std::nullopt);
  EXPECT_EQ(err_.str(), "note: --warmup is the old name of --lr-warmup-fraction\n");
  EXPECT_EQ(field("lr_warmup_fraction"), megatron::FieldValue(0.1));
}

TEST_F(ArgumentFlagsTest, NotesNameEveryIgnoredFlagByReason) {
  declare_trainer();
  EXPECT_EQ(parse({"--num-layers", "2", "--profile-step-start", "3", "--lr", "1", "--wandb-project",
                   "p", "--profile-ranks", "--profile_step_start=4"}),
            std::nullopt);
  EXPECT_EQ(err_.str(),
            "note: ignored: --profile-step-start, --profile-ranks (profiling)\n"
            "note: ignored: --wandb-project (no W&B is written)\n");
  EXPECT_EQ(field("profile_step_start"), megatron::FieldValue(int64_t{4}));
}

TEST_F(ArgumentFlagsTest, WhatTheProgramWouldHaveToHeedIsRefused) {
  declare_trainer();
  EXPECT_EQ(parse({"--num-layers", "2", "--lr", "1", "--num-experts", "8", "--fim-rate", "1",
                   "--squared-relu", "--wandb-project", "p"}),
            1);
  EXPECT_EQ(err_.str(),
            "note: ignored: --wandb-project (no W&B is written)\n"
            "error: --num-experts, --squared-relu: not supported yet (would change the model); "
            "--fim-rate: not supported yet (would change the data)\n");
}

TEST_F(ArgumentFlagsTest, TheDefaultOfARefusedFlagPasses) {
  declare_trainer();
  EXPECT_EQ(
      parse({"--num-layers", "2", "--lr", "1", "--fim-rate", "0.50", "--moe-aux-loss-coeff", "0"}),
      std::nullopt);
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(parse({"--num-layers", "2", "--lr", "1", "--fim-rate", "1", "--fim-rate", "0.5"}),
            std::nullopt)
      << "the last of two counts";
  EXPECT_EQ(parse({"--num-layers", "2", "--lr", "1", "--moe-aux-loss-coeff", "0", "0.1"}), 1);
}

TEST_F(ArgumentFlagsTest, IdleEffectsAreNotedWithTheProgramsReason) {
  declare_evaluator();
  EXPECT_EQ(parse({"--lr", "1e-3", "--min-lr", "1e-4", "--profile-step-start", "1"}), std::nullopt);
  EXPECT_EQ(err_.str(),
            "note: ignored: --lr, --min-lr (schedule: nothing is trained here)\n"
            "note: ignored: --profile-step-start (profiling)\n");
  EXPECT_EQ(parse({"--disable-bias-linear"}), 1);
  EXPECT_EQ(err_.str(),
            "error: --disable-bias-linear: not supported yet (would change the model)\n");
}

TEST_F(ArgumentFlagsTest, AFieldThatIsReadOnlyToBeRefusedIsNeverIdle) {
  declare({.reads = {"num_experts"},
           .required = {},
           .idle = {{megatron::Effect::kModel, "no model is here"}},
           .idle_fields = {}});
  EXPECT_EQ(parse({"--squared-relu", "--num-experts", "8"}), 1);
  EXPECT_EQ(err_.str(),
            "note: ignored: --squared-relu (model: no model is here)\n"
            "error: --num-experts: not supported yet (would change the model)\n");
}

TEST_F(ArgumentFlagsTest, TheProgramsOwnFlagsWin) {
  declare_evaluator();
  EXPECT_EQ(parse({"--seed", "7"}), std::nullopt);
  EXPECT_EQ(seed_, 7);
  EXPECT_FALSE(values_.given("seed"));
}

TEST(ArgumentFlagNamesTest, ARowsOtherNamesMeanTheProgramsOwnFlag) {
  Flags flags("program", "does something");
  double epsilon = 0;
  megatron::ArgumentValues values;
  flags.arguments(kRows, {}, &values);
  flags.value("--norm-epsilon", &epsilon, "EPS", "declared behind the rows, and wins");
  const char* arguments[] = {"program", "--layernorm_epsilon", "0.25"};
  std::ostringstream err;
  EXPECT_EQ(flags.parse(3, arguments, err, err), std::nullopt);
  EXPECT_EQ(epsilon, 0.25);
  EXPECT_EQ(err.str(), "");
}

TEST_F(ArgumentFlagsTest, APrefixMeansAReadFlagBeforeOthers) {
  declare_evaluator();
  EXPECT_EQ(parse({"--num", "3"}), std::nullopt) << "not --num-experts";
  EXPECT_EQ(field("num_layers"), megatron::FieldValue(int64_t{3}));
  EXPECT_EQ(parse({"--profile", "3"}), 2) << "two others";
  EXPECT_THAT(err_.str(), HasSubstr("could be --profile-step-start, --profile-ranks"));
}

TEST_F(ArgumentFlagsTest, HelpListsReadFlagsByEffectWithDefaults) {
  declare_trainer();
  EXPECT_EQ(parse({"--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("usage: program --num-layers N --lr LR [flags]\n"));
  EXPECT_THAT(out_.str(), HasSubstr("\nModel\n"
                                    "  --num-layers N              transformer layers (required)\n"
                                    "  --norm-epsilon EPS          of norms (default: 1e-05)\n"
                                    "  --disable-bias-linear       no biases\n"));
  EXPECT_THAT(out_.str(), HasSubstr("how it falls {constant, linear, cosine} (default:\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("--num-experts")));
}

TEST_F(ArgumentFlagsTest, HelpFitsEightyColumns) {
  declare_trainer();
  unsetenv("COLUMNS");
  EXPECT_EQ(parse({"--help"}), 0);
  std::istringstream lines(out_.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(ArgumentFlagsTest, AProgramMayHaveDefaultsOfItsOwn) {
  values_.set("min_lr", 0.125);
  declare_trainer();
  EXPECT_EQ(parse({"--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("lowest (default: 0.125)\n"));
}

}  // namespace
}  // namespace meg::tools
