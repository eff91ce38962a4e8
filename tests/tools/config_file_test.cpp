#include "tools/common/flags/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace meg::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Result<std::vector<ConfigEntry>> read(const std::string& text) {
  std::istringstream input(text);
  return read_config(input);
}

std::string error_of(const std::string& text) {
  const auto entries = read(text);
  return entries.has_value() ? "" : entries.error().message();
}

TEST(ConfigFileTest, ReadsEntriesWithTheirLines) {
  const auto entries = read(
      "# a run\n; of a model\n\nlr = 1e-4  # high\r\n  data-path=[ 'a', # first\n  'b' ]\n"
      "load =\nname = \"x # y\" # z");
  ASSERT_TRUE(entries.has_value()) << entries.error().message();
  std::vector<std::string> found;
  for (const ConfigEntry& entry : *entries) {
    found.push_back(fmt::format("{} {}|{}", entry.line, entry.key, entry.value));
  }
  EXPECT_THAT(found,
              ElementsAre("4 lr|1e-4", "5 data-path|[ 'a', 'b' ]", "7 load|", "8 name|\"x # y\""));
}

TEST(ConfigFileTest, ASharpInsideAWordBeginsNoComment) {
  const auto entries = read("load = /data/run#3");
  ASSERT_TRUE(entries.has_value());
  EXPECT_EQ(entries->front().value, "/data/run#3");
}

TEST(ConfigFileTest, RefusesWhatIsNoEntry) {
  EXPECT_EQ(error_of("lr = 1\nlr: 0.1"), "2: expected key = value, found \"lr: 0.1\"");
  EXPECT_EQ(error_of("\n[model]"), "2: expected key = value, found \"[model]\"");
  EXPECT_EQ(error_of("a = 1\nb = [1,\n2\n"), "2: b: expected ], found the end of the file");
}

TEST(ConfigFileTest, TextIsTheLineOrWhatQuotesHold) {
  EXPECT_EQ(*config_text("a b, c"), "a b, c");
  EXPECT_EQ(*config_text("\"a \\\"b\\\" \\\\\""), "a \"b\" \\");
  EXPECT_EQ(*config_text("'a\\n\"'"), "a\\n\"");
  EXPECT_EQ(*config_text("it's"), "it's");
  EXPECT_EQ(*config_text("\"\""), "");
  EXPECT_EQ(config_text("\"a\" b").error().message(),
            "expected a closing quote at the end, found \"\\\"a\\\" b\"");
  EXPECT_FALSE(config_text("'a").has_value());
  EXPECT_FALSE(config_text("\"\\n\"").has_value()) << "TOML would read another byte";
}

TEST(ConfigFileTest, ListsAreInBracketsOrPartedByBlanks) {
  EXPECT_THAT(*config_list("0.5 a  \"b c\" 'd'"), ElementsAre("0.5", "a", "b c", "d"));
  EXPECT_THAT(*config_list("[0.5 , \"a, b\" ,'c']"), ElementsAre("0.5", "a, b", "c"));
  EXPECT_THAT(*config_list("[a, b,]"), ElementsAre("a", "b"));
  EXPECT_THAT(*config_list("a,b"), ElementsAre("a,b"));
  EXPECT_THAT(*config_list("\"\""), ElementsAre(""));
  EXPECT_THAT(*config_list("[]"), IsEmpty());
  EXPECT_THAT(*config_list(""), IsEmpty());
  EXPECT_FALSE(config_list("[a,,b]").has_value());
  EXPECT_FALSE(config_list("[a] b").has_value());
  EXPECT_FALSE(config_list("['a' 'b']").has_value());
}

}  // namespace
}  // namespace meg::tools
