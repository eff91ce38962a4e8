#include "tools/common/flags/command_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meg::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The words of a command line, sorted: "--name=value,value" for each flag, then the positionals.
class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    declare("--data-path", Arity::kList);
    declare("--data-cache-path", Arity::kValue);
    declare("--lr", Arity::kValue);
    declare("--bf16", Arity::kSwitch);
    declare("--layernorm-epsilon", Arity::kValue).old_names = {"--norm_eps"};
    declare("--lists", Arity::kList).may_be_empty = true;
    declare("--learn", Arity::kValue).use = FlagSpec::Use::kPassed;
    declare("--help", Arity::kSwitch).use = FlagSpec::Use::kHelp;
    declare("--no-bias-fusion", Arity::kSwitch);
  }

  FlagSpec& declare(std::string name, Arity arity) {
    FlagSpec& spec = *table_.flags.emplace_back(std::make_unique<FlagSpec>());
    spec.name = std::move(name);
    spec.arity = arity;
    spec.metavar = arity == Arity::kSwitch ? "" : "X";
    return spec;
  }

  void take_positionals(Arity arity) {
    table_.positionals.push_back(std::make_unique<FlagSpec>());
    table_.positionals.back()->arity = arity;
  }

  std::vector<std::string> sorted(std::vector<std::string_view> words) {
    const Result<CommandLine> line = read_command_line(table_, words);
    if (!line.has_value()) return {"error: " + line.error().message()};
    std::vector<std::string> found;
    for (const FlagUse& use : line->flags) {
      found.push_back(fmt::format("{}={}", use.flag.name, fmt::join(use.values, ",")));
    }
    found.insert(found.end(), line->positionals.begin(), line->positionals.end());
    return found;
  }

  FlagTable table_;
};

TEST_F(CommandLineTest, SortsFlagsAndValues) {
  EXPECT_THAT(sorted({"--lr", "1", "--bf16", "--data-path", "a", "b"}),
              ElementsAre("--lr=1", "--bf16=", "--data-path=a,b"));
  EXPECT_THAT(sorted({}), IsEmpty());
}

TEST_F(CommandLineTest, TakesBothSpellingsAndUniquePrefixes) {
  EXPECT_THAT(sorted({"--data_path", "a", "--data_c", "b", "--bf"}),
              ElementsAre("--data-path=a", "--data-cache-path=b", "--bf16="));
  EXPECT_THAT(sorted({"--data", "a"}),
              ElementsAre("error: ambiguous flag --data: could be --data-path, --data-cache-path"));
  EXPECT_THAT(sorted({"--layer", "1"}), ElementsAre("--layernorm-epsilon=1"));
}

TEST_F(CommandLineTest, APrefixNeverMeansAnIgnoredFlag) {
  EXPECT_THAT(sorted({"--l", "1"}), ElementsAre("error: ambiguous flag --l: could be --lr, "
                                                "--layernorm-epsilon, --lists"));
  EXPECT_THAT(sorted({"--le", "1"}),
              ElementsAre("error: unknown flag --le: could be --learn, but a flag that is not read "
                          "here needs its full name"));
  EXPECT_THAT(sorted({"--learn", "1"}), ElementsAre("--learn=1"));
  EXPECT_THAT(sorted({"--norm", "1"}), ElementsAre("--norm_eps=1"));
}

TEST_F(CommandLineTest, SuggestsOnlyFlagsThatAreRead) {
  declare("--max-tokens-to-oom", Arity::kValue).use = FlagSpec::Use::kPassed;
  declare("--max-cost", Arity::kValue).use = FlagSpec::Use::kRefused;
  declare("--tokens-to-generate", Arity::kValue);
  EXPECT_THAT(sorted({"--max_tokens", "3"}),
              ElementsAre("error: unknown flag --max_tokens: did you mean --tokens-to-generate? It "
                          "could be --max-tokens-to-oom, but a flag that is not read here needs "
                          "its full name"));
  EXPECT_THAT(
      sorted({"--max-c", "3"}),
      ElementsAre("error: unknown flag --max-c: could be --max-cost, but a flag that is not "
                  "read here needs its full name"))
      << "nor what is refused: its default would pass";
  EXPECT_THAT(sorted({"--max", "3"}),
              ElementsAre("error: unknown flag --max: could be --max-tokens-to-oom, --max-cost, "
                          "but a flag that is not read here needs its full name"));
}

TEST_F(CommandLineTest, KeepsEveryUseInOrder) {
  EXPECT_THAT(sorted({"--lr", "1", "--data-path", "a", "--lr=2", "--data-path", "b", "c"}),
              ElementsAre("--lr=1", "--data-path=a", "--lr=2", "--data-path=b,c"));
}

TEST_F(CommandLineTest, DashesInValues) {
  EXPECT_THAT(sorted({"--data-path", "-1", "-", "-.5", "-2e3", "-1e-5", "a"}),
              ElementsAre("--data-path=-1,-,-.5,-2e3,-1e-5,a"));
  EXPECT_THAT(sorted({"--lr=-x", "--data-path=--lr"}), ElementsAre("--lr=-x", "--data-path=--lr"));
  EXPECT_THAT(sorted({"--lr", "-a b"}), ElementsAre("--lr=-a b"));
  EXPECT_THAT(sorted({"--lr", "-x"}), ElementsAre("error: --lr: expected X, found \"-x\""));
}

TEST_F(CommandLineTest, EmptyAndMissingValues) {
  EXPECT_THAT(sorted({"--lr", "", "--lr="}), ElementsAre("--lr=", "--lr="));
  EXPECT_THAT(sorted({"--data-path", "", ""}), ElementsAre("--data-path=,"));
  EXPECT_THAT(sorted({"--lr"}),
              ElementsAre("error: --lr: expected X, found the end of the command line"));
  EXPECT_THAT(sorted({"--data-path", "--lr", "1"}),
              ElementsAre("error: --data-path: expected X, found \"--lr\""));
  EXPECT_THAT(sorted({"--lr", "--", "1"}), ElementsAre("error: --lr: expected X, found \"--\""));
  EXPECT_THAT(sorted({"--lists", "--bf16"}), ElementsAre("--lists=", "--bf16="));
  EXPECT_THAT(sorted({"--bf16=1"}), ElementsAre("error: --bf16: expected no value, found \"1\""));
}

TEST_F(CommandLineTest, PositionalsStandAnywhereAndBehindTwoDashes) {
  take_positionals(Arity::kValue);
  EXPECT_THAT(sorted({"a", "--bf16"}), ElementsAre("--bf16=", "a"));
  EXPECT_THAT(sorted({"--bf16", "--", "--lr"}), ElementsAre("--bf16=", "--lr"));
  EXPECT_THAT(sorted({"--data-path=x", "a"}), ElementsAre("--data-path=x", "a"))
      << "what follows --list=value could be a positional";
  take_positionals(Arity::kList);
  EXPECT_THAT(sorted({"a", "--lr", "1", "b", "--", "--", "-c"}),
              ElementsAre("--lr=1", "a", "b", "--", "-c"));
}

TEST_F(CommandLineTest, NothingCountsBehindHelp) {
  EXPECT_THAT(sorted({"--lr", "1", "-h", "--unknown"}), ElementsAre("--lr=1", "--help="));
}

TEST_F(CommandLineTest, NeverSuggestsTheOppositeOfWhatWasMeant) {
  EXPECT_THAT(sorted({"--bias-fusion"}), ElementsAre("error: unknown flag --bias-fusion"));
  EXPECT_THAT(sorted({"--no-bf16"}), ElementsAre("error: unknown flag --no-bf16"));
  EXPECT_THAT(sorted({"--no-bais-fusion"}),
              ElementsAre("error: unknown flag --no-bais-fusion: did you mean --no-bias-fusion?"));
}

TEST_F(CommandLineTest, HostileNamesArePrintedQuoted) {
  EXPECT_THAT(sorted({"--\x1b[31m"}), ElementsAre("error: unknown flag \"--\\x1b[31m\""));
}

}  // namespace
}  // namespace meg::tools
