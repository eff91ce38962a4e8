#include "libmeg/megatron/argument_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "libmeg/megatron/megatron_version.h"

namespace meg::megatron {
namespace {

using testing::Contains;
using testing::IsSupersetOf;

std::vector<ArgumentRow> all_rows() {
  std::vector<ArgumentRow> rows;
  for (const ArgumentFamily family : kArgumentFamilies) {
    const auto some = argument_rows(family);
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Names are the same with `_` for `-`.
std::vector<std::string> names_of(const ArgumentRow& row) {
  std::vector<std::string> names = words(row.other_names);
  names.emplace_back(row.flag);
  for (std::string& name : names) {
    std::erase_if(name, [](char c) { return c == '(' || c == ')'; });
    std::replace(name.begin(), name.end(), '_', '-');
  }
  return names;
}

/// Where a revision stands in time; kVersions' size for one that libmeg does not know.
size_t place_of(std::string_view revision) {
  const auto versions = megatron_versions();
  const auto found = std::find_if(versions.begin(), versions.end(),
                                  [&](const auto& version) { return version.name == revision; });
  return static_cast<size_t>(found - versions.begin());
}

bool is_literal_of(ArgumentType type, std::string_view text) {
  static const std::map<ArgumentType, std::string> kLiterals = {
      {ArgumentType::kBool, "True|False"},
      {ArgumentType::kInteger, "-?[0-9]+"},
      {ArgumentType::kReal, R"(-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?)"},
      {ArgumentType::kText,
       "'[^']*'|-?[0-9]+"},  // numbers: what a function of Megatron's gives back
  };
  const std::string one = "(" + kLiterals.at(type) + ")";
  const std::regex pattern("None|" + one + R"(|\[\]|\[)" + one + "(, " + one + R"()*\])");
  return std::regex_match(std::string(text), pattern);
}

const ArgumentRow* find(ArgumentFamily family, std::string_view name) {
  for (const ArgumentRow& row : argument_rows(family)) {
    for (const std::string& one : names_of(row)) {
      if (one == name) return &row;
    }
  }
  return nullptr;
}

TEST(ArgumentTableTest, RowsStandWithTheirFamily) {
  for (const ArgumentFamily family : kArgumentFamilies) {
    EXPECT_FALSE(argument_rows(family).empty());
    for (const ArgumentRow& row : argument_rows(family)) EXPECT_EQ(row.family, family) << row.flag;
  }
}

TEST(ArgumentTableTest, NoTwoRowsOfAFamilyShareAName) {
  for (const ArgumentFamily family : kArgumentFamilies) {
    std::set<std::string> seen;
    for (const ArgumentRow& row : argument_rows(family)) {
      for (const std::string& name : names_of(row)) EXPECT_TRUE(seen.insert(name).second) << name;
    }
  }
}

TEST(ArgumentTableTest, NamesAreLongFlags) {
  const std::regex flag("--[A-Za-z0-9]+(-[A-Za-z0-9]+)*");
  for (const ArgumentRow& row : all_rows()) {
    for (const std::string& name : names_of(row)) EXPECT_TRUE(std::regex_match(name, flag)) << name;
  }
}

TEST(ArgumentTableTest, FieldsAreIdentifiers) {
  const std::regex field("!?[A-Za-z_][A-Za-z0-9_]*");
  for (const ArgumentRow& row : all_rows()) {
    std::vector<std::string> dests = words(row.older_dests);
    dests.emplace_back(row.dest);
    for (const std::string& dest : dests) EXPECT_TRUE(std::regex_match(dest, field)) << row.flag;
  }
}

TEST(ArgumentTableTest, OnlySwitchesStoreAValue) {
  for (const ArgumentRow& row : all_rows()) {
    EXPECT_EQ(row.arity == ArgumentArity::kSwitch, !row.stored.empty()) << row.flag;
    if (row.arity != ArgumentArity::kSwitch) continue;
    EXPECT_TRUE(is_literal_of(row.type, row.stored)) << row.flag << " " << row.stored;
  }
}

TEST(ArgumentTableTest, DefaultsAreOfTheirType) {
  for (const ArgumentRow& row : all_rows()) {
    EXPECT_TRUE(is_literal_of(row.type, row.default_value)) << row.flag << " " << row.default_value;
  }
}

TEST(ArgumentTableTest, FlagsOfOneFieldAgreeOnItsDefault) {
  for (const ArgumentFamily family : kArgumentFamilies) {
    std::map<std::string_view, std::string_view> defaults;
    for (const ArgumentRow& row : argument_rows(family)) {
      const auto [field, is_new] = defaults.emplace(row.dest, row.default_value);
      EXPECT_EQ(field->second, row.default_value) << row.flag;
    }
  }
}

TEST(ArgumentTableTest, ChoicesHaveTheDefaultAndAllThatIsSupported) {
  for (const ArgumentRow& row : all_rows()) {
    const std::vector<std::string> choices = words(row.choices);
    if (choices.empty()) continue;
    EXPECT_THAT(choices, IsSupersetOf(words(row.supported))) << row.flag;
    std::string text(row.default_value);
    if (text == "None" || text == "[]") continue;
    std::erase(text, '\'');
    EXPECT_THAT(choices, Contains(text)) << row.flag;
  }
}

TEST(ArgumentTableTest, DefaultsAreSupported) {
  for (const ArgumentRow& row : all_rows()) {
    std::string text(row.default_value);
    if (row.supported.empty() || text == "None") continue;
    std::erase(text, '\'');
    EXPECT_THAT(words(row.supported), Contains(text)) << row.flag;
  }
}

TEST(ArgumentTableTest, RevisionsAreKnownAndInOrder) {
  for (const ArgumentRow& row : all_rows()) {
    EXPECT_LE(place_of(row.since), place_of(row.until)) << row.flag;
    EXPECT_LT(place_of(row.until), megatron_versions().size()) << row.flag << " " << row.until;
  }
}

TEST(ArgumentTableTest, EveryRevisionIsTheEndOfARange) {
  std::set<std::string_view> ends;
  for (const ArgumentRow& row : all_rows()) ends.insert({row.since, row.until});
  for (const MegatronVersion& version : megatron_versions())
    EXPECT_TRUE(ends.contains(version.name));
}

TEST(ArgumentTableTest, WhatHasNoEffectSaysWhy) {
  for (const ArgumentRow& row : all_rows()) {
    const bool must = row.effect == Effect::kNone;
    const bool may = must || row.effect == Effect::kLog;
    EXPECT_TRUE(row.reason.empty() ? !must : may) << row.flag;
  }
}

TEST(ArgumentTableTest, ValuesWithHelpHaveAMetavar) {
  for (const ArgumentRow& row : all_rows()) {
    const bool takes_values = row.arity != ArgumentArity::kSwitch;
    EXPECT_EQ(!row.metavar.empty(), takes_values && !row.help.empty()) << row.flag;
  }
}

TEST(ArgumentTableTest, RangesAreOfNumbersWithHelp) {
  const std::regex range(R"((-?[0-9.]*[0-9])?\.\.(-?[0-9][0-9.]*)?)");
  for (const ArgumentRow& row : all_rows()) {
    if (row.range.empty()) continue;
    EXPECT_TRUE(std::regex_match(std::string(row.range), range)) << row.flag << " " << row.range;
    EXPECT_TRUE(row.type == ArgumentType::kInteger || row.type == ArgumentType::kReal) << row.flag;
    EXPECT_FALSE(row.help.empty()) << row.flag;
  }
}

TEST(ArgumentTableTest, HelpIsOneLineWithoutAFullStop) {
  for (const ArgumentRow& row : all_rows()) {
    EXPECT_EQ(row.help.find('\n'), std::string_view::npos) << row.flag;
    EXPECT_FALSE(row.help.ends_with('.') && !row.help.ends_with("..")) << row.flag;
  }
}

TEST(ArgumentTableTest, KnowsNumLayers) {
  const ArgumentRow* row = find(ArgumentFamily::kTraining, "--num-layers");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->dest, "num_layers");
  EXPECT_EQ(row->arity, ArgumentArity::kValue);
  EXPECT_EQ(row->type, ArgumentType::kInteger);
  EXPECT_EQ(row->default_value, "None");
  EXPECT_EQ(row->since, "v2.6");
  EXPECT_EQ(row->until, megatron_versions().back().name);
  EXPECT_EQ(row->effect, Effect::kModel);
  EXPECT_EQ(row->metavar, "N");
  EXPECT_EQ(row->range, "1..");
}

TEST(ArgumentTableTest, OldNamesAreThoseOfTheNewFlag) {
  const std::map<std::string, std::string> names = {
      {"--model-parallel-size", "--tensor-model-parallel-size"},
      {"--batch-size", "--micro-batch-size"},
      {"--warmup", "--lr-warmup-fraction"},
      {"--layernorm-epsilon", "--norm-epsilon"},
      {"--checkpoint-activations", "--recompute-activations"},
      {"--override-lr-scheduler", "--override-opt_param-scheduler"},
      {"--use-checkpoint-lr-scheduler", "--use-checkpoint-opt_param-scheduler"},
  };
  for (const auto& [old, now] : names) {
    const ArgumentRow* row = find(ArgumentFamily::kTraining, old);
    ASSERT_NE(row, nullptr) << old;
    EXPECT_EQ(row->flag, now);
  }
}

TEST(ArgumentTableTest, SwitchesOfOneFieldStoreDifferentValues) {
  const ArgumentRow* off = find(ArgumentFamily::kTraining, "--no-bias-gelu-fusion");
  ASSERT_NE(off, nullptr);
  EXPECT_EQ(off->dest, "bias_gelu_fusion");
  EXPECT_EQ(off->default_value, "True");
  EXPECT_EQ(off->stored, "False");
}

TEST(ArgumentTableTest, RenamedFieldsKeepTheirOldNames) {
  const ArgumentRow* row = find(ArgumentFamily::kTraining, "--apply-layernorm-1p");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->dest, "layernorm_zero_centered_gamma");
  EXPECT_EQ(row->older_dests, "apply_layernorm_1p");
}

TEST(ArgumentTableTest, WhatChangesTheModelIsNotIgnored) {
  for (const char* name : {"--num-experts", "--multi-latent-attention", "--squared-relu",
                           "--use-rope-scaling", "--apply-layernorm-1p", "--fp8-format"}) {
    const ArgumentRow* row = find(ArgumentFamily::kTraining, name);
    ASSERT_NE(row, nullptr) << name;
    EXPECT_EQ(row->effect, Effect::kModel) << name;
  }
}

}  // namespace
}  // namespace meg::megatron
