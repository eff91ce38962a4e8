#include "libmeg/preprocess/sources/json_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/preprocess/sources/internal/text_source.h"
#include "libmeg/text/line_ends.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"
#include "tests/text/json_readers.h"

namespace meg::preprocess {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Texts = std::vector<std::string>;

Texts copy_of(const text::TextList& texts) { return {texts.begin(), texts.end()}; }

/// Parses `line` for "text"; its texts, or the error's message as the only element.
Texts texts_of(const std::string& line) {
  JsonLineParser parser({"text"});
  const test::PaddedLine padded(line);
  const Status status = parser.parse(padded.view());
  return status.ok() ? copy_of(parser.texts(0)) : Texts{"error: " + status.message()};
}

std::string error_of(const std::string& line) {
  JsonLineParser parser({"text"});
  const test::PaddedLine padded(line);
  return parser.parse(padded.view()).message();
}

std::string nested(int depth) {
  return "{\"text\":\"x\",\"d\":" + std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']') + "}";
}

/// Whether every line of a file of the oracle parses; blank lines count as good.
bool all_lines_parse(const std::string& path) {
  const std::string file = test::read_file(path);
  std::string_view lines = file;
  std::string_view line;
  bool all_good = true;
  while (text::take_line(lines, line)) {
    all_good = all_good && (text::is_blank_line(line) || error_of(std::string(line)).empty());
  }
  return all_good;
}

TEST(JsonLine, ReadsTheOraclesQuirks) {
  MEG_REQUIRE_SHARED("oracle/datasets/inputs/json_quirks.jsonl");
  const std::string file =
      test::read_file(test::shared_path("oracle/datasets/inputs/json_quirks.jsonl"));
  std::vector<Texts> found;
  std::string_view lines = file;
  std::string_view line;
  while (text::take_line(lines, line)) found.push_back(texts_of(std::string(line)));
  const Texts sentences{"first sentence .", "second one!", "", " third"};
  const std::vector<Texts> expected{{"dup2"},
                                    {"nan"},
                                    {"num"},
                                    {"a/b"},
                                    {"\U0001F600"},
                                    {"\U0001F600A"},
                                    {"emptykey"},
                                    {"tabs"},
                                    {"deep"},
                                    {"raw\x7f\u2028\u0085\u00a0x"},
                                    {std::string(1, '\0')},
                                    sentences,
                                    {},
                                    {""},
                                    {"only"},
                                    {"ASCII only, no newline at the end of this file"}};
  EXPECT_EQ(found, expected);
}

TEST(JsonLine, RefusesTheOraclesBadFiles) {
  MEG_REQUIRE_SHARED("oracle/datasets/inputs/bad");
  const std::string folder = test::shared_path("oracle/datasets/inputs/bad/");
  for (const std::string name :
       {"array_line", "bad_escape", "bad_utf8", "bom", "dict_text", "invalid_json",
        "list_of_numbers", "lone_low", "lone_surrogate", "missing_key", "null_text", "number_text",
        "raw_control", "reversed_pair", "single_quote", "trailing_comma", "two_objects"}) {
    ASSERT_TRUE(std::filesystem::exists(folder + name + ".jsonl")) << name;
    EXPECT_FALSE(all_lines_parse(folder + name + ".jsonl")) << name;
  }
  for (const std::string name : {"blank_line", "empty_file", "trailing_blank"}) {
    EXPECT_TRUE(all_lines_parse(folder + name + ".jsonl")) << name;
  }
}

TEST(JsonLine, SaysWhatIsWrongAndWhere) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "byte 1: expected a JSON object, found the end of the line"},
      {"[\"a\"]", "byte 1: expected a JSON object, found \"[\\\"a\\\"]\""},
      {"\xef\xbb\xbf{}", "byte 1: expected a JSON object, found a byte order mark (UTF-8 BOM)"},
      {"{\"text\":\"a\xff\"}", "byte 11: expected UTF-8, found \"\\xff\\\"}\""},
      {"{\"text\":\"a\xed\xa0\x80\"}", "byte 11: expected UTF-8, found \"\\xed\\xa0\\x80\\\"}\""},
      {"{'text':'a'}", "byte 2: expected a key in double quotes, found \"'text':'a'...\""},
      {"{\"text\":",
       "byte 9: expected a value, found the end of the line (JSON lines: one object a line)"},
      {"{",
       "byte 2: expected a key in double quotes, found the end of the line (JSON lines: one "
       "object a line)"},
      {"{\"text\"}", "byte 8: expected \":\" after a key, found \"}\""},
      {"{\"text\":\"a\",}", "byte 13: expected a key in double quotes, found \"}\""},
      {"{\"text\":\"a\" \"b\"}",
       "byte 13: expected \",\" or \"}\" in an object, found \"\\\"b\\\"}\""},
      {"{\"text\":[\"a\" \"b\"]}",
       "byte 14: expected \",\" or \"]\" in a list, found \"\\\"b\\\"]}\""},
      {"{\"text\":\"a\tb\"}",
       "byte 11: expected no control character inside a string, found \"\\tb\\\"}\""},
      {"{\"text\":\"a",
       "byte 11: expected the closing \" of a string, found the end of the line "
       "(JSON lines: one object a line)"},
      {"{\"text\":\"\\x41\"}", "byte 10: expected a valid JSON escape, found \"\\\\x41\\\"}\""},
      {"{\"text\":\"\\u12g4\"}", "byte 14: expected a hexadecimal digit, found \"g4\\\"}\""},
      {"{\"text\":\"\\ud800x\"}",
       "byte 10: key \"text\": expected text that UTF-8 can hold, found half a pair: "
       "\"\\\\ud800\""},
      {"{\"text\":\"\\ude00\\ud83d\"}",
       "byte 10: key \"text\": expected text that UTF-8 can hold, found half a pair: "
       "\"\\\\ude00\""},
      {"{\"text\":01}", "byte 10: expected \",\" or \"}\" in an object, found \"1}\""},
      {"{\"text\":+1}", "byte 9: expected a value, found \"+1}\""},
      {"{\"text\":1.}", "byte 11: expected a digit after the decimal point, found \"}\""},
      {"{\"text\":1e}", "byte 11: expected a digit in the exponent of a number, found \"}\""},
      {"{\"text\":-}", "byte 9: expected a value, found \"-}\""},
      {"{\"text\":nul}", "byte 9: expected a value, found \"nul}\""},
      {"{\"text\":\"a\"} {}",
       "byte 14: expected the end of the line after the object, found \"{}\""},
      {"{\"text\":null}",
       "byte 9: key \"text\": expected a string or a list of strings, found null"},
      {"{\"text\":-Infinity}",
       "byte 9: key \"text\": expected a string or a list of strings, found a number"},
      {"{\"text\":false}",
       "byte 9: key \"text\": expected a string or a list of strings, found a boolean"},
      {"{\"text\":{\"a\":1}}",
       "byte 9: key \"text\": expected a string or a list of strings, found an object"},
      {"{\"text\":[\"a\", 1]}",
       "byte 15: key \"text\": expected a string or a list of strings, found a list with a "
       "number"},
      {"{\"txt\":\"a\"}", "byte 1: key \"text\" is missing: found \"txt\""},
      {"{}", "byte 1: key \"text\" is missing: found no other key"},
  };
  for (const auto& [line, message] : cases) EXPECT_EQ(error_of(line), message) << line;
}

TEST(JsonLine, TellsAMissingKeyFromABadLine) {
  JsonLineParser parser({"text"});
  EXPECT_EQ(parser.parse(test::PaddedLine("{\"a\":1}").view()).code(), StatusCode::kNotFound);
  EXPECT_EQ(parser.parse(test::PaddedLine("{\"a\":}").view()).code(), StatusCode::kCorruption);
}

TEST(JsonLine, TakesTheLastOfSeveralValues) {
  EXPECT_THAT(texts_of("{\"text\":1,\"text\":\"a\"}"), ElementsAre("a"));
  EXPECT_THAT(texts_of("{\"text\":\"\\ud800\",\"text\":\"a\"}"), ElementsAre("a"));
  EXPECT_THAT(texts_of("{\"text\":[\"a\",\"b\"],\"te\\u0078t\":[\"c\"]}"), ElementsAre("c"));
  EXPECT_THAT(error_of("{\"text\":\"a\",\"text\":2}"),
              "byte 20: key \"text\": expected a string or a list of strings, found a number");
}

TEST(JsonLine, AsksOnlyTheOutermostObject) {
  EXPECT_THAT(texts_of("{\"text\":\"a\",\"b\":{\"text\":5}}"), ElementsAre("a"));
  EXPECT_EQ(error_of("{\"b\":{\"text\":\"a\"}}"), "byte 1: key \"text\" is missing: found \"b\"");
}

TEST(JsonLine, AcceptsLoneSurrogatesThatNobodyAsksFor) {
  EXPECT_THAT(texts_of("{\"\\udc00\":\"\\ud800\",\"text\":\"a\"}"), ElementsAre("a"));
}

TEST(JsonLine, JoinsOnlyAdjacentHalvesInOrder) {
  EXPECT_THAT(texts_of("{\"text\":\"\\ud83d\\ude00\"}"), ElementsAre("\U0001F600"));
  EXPECT_NE(error_of("{\"text\":\"\\ud83d\\ud83d\\ude00\"}"), "");
  EXPECT_NE(error_of("{\"text\":\"\\ud83d \\ude00\"}"), "");
}

TEST(JsonLine, GivesEveryAskedKeyItsTexts) {
  JsonLineParser parser({"text", "title"});
  const test::PaddedLine line("{\"title\":[\"t\\n\",\"u\"],\"x\":0,\"text\":\"a\"}");
  ASSERT_TRUE(parser.parse(line.view()).ok());
  EXPECT_THAT(copy_of(parser.texts(0)), ElementsAre("a"));
  EXPECT_THAT(copy_of(parser.texts(1)), ElementsAre("t\n", "u"));
}

TEST(JsonLine, ForgetsTheLineBefore) {
  JsonLineParser parser({"text"});
  ASSERT_TRUE(parser.parse(test::PaddedLine("{\"text\":[\"a\",\"b\"]}").view()).ok());
  ASSERT_TRUE(parser.parse(test::PaddedLine("{\"text\":[]}").view()).ok());
  EXPECT_THAT(parser.texts(0), IsEmpty());
  EXPECT_FALSE(parser.parse(test::PaddedLine("{\"a\":\"b\"}").view()).ok());
}

TEST(JsonLine, LimitsNestingInsteadOfOverflowingTheStack) {
  EXPECT_THAT(texts_of(nested(900)), ElementsAre("x"));
  EXPECT_THAT(texts_of(nested(999)), ElementsAre("x"));
  EXPECT_EQ(error_of(nested(1000)),
            "byte 1016: expected at most 1000 nested values, found \"[]]]]]]]]]...\"");
  EXPECT_NE(error_of(nested(1000000)), "");
}

TEST(JsonLine, ReadsALineOfManyMegabytes) {
  const std::string text(20 << 20, 'x');
  EXPECT_THAT(texts_of("{\"text\":\"" + text + "\\n\"}"), ElementsAre(text + "\n"));
  EXPECT_THAT(texts_of("{\"text\":\"" + text + "\",\"\\u0061\":0}"), ElementsAre(text));
}

TEST(JsonLine, BlankLinesHoldOnlySpacesAndTabs) {
  for (const std::string_view line : {"", " ", "\t \t"}) EXPECT_TRUE(text::is_blank_line(line));
  for (const std::string_view line : {"a", " {", "\x0b", "\xc2\xa0"}) {
    EXPECT_FALSE(text::is_blank_line(line));
  }
}

}  // namespace
}  // namespace meg::preprocess
