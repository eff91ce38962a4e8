#include "libmeg/dataset/json_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libmeg/dataset/text_source.h"
#include "libmeg/tokenizer/tokenizer.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Parses `line` for "text"; its texts, or the error's message as the only element.
std::vector<std::string> texts_of(const std::string& line) {
  JsonLineParser parser({"text"});
  const std::string padded = line + std::string(kTextPadding, '\0');
  const Status status = parser.parse(std::string_view(padded).substr(0, line.size()));
  if (!status.ok()) return {"error: " + status.message()};
  return {parser.texts(0).begin(), parser.texts(0).end()};
}

TEST(JsonLine, ReadsTheOraclesQuirks) {
  MEG_REQUIRE_SHARED("oracle/datasets/inputs/json_quirks.jsonl");
  const std::string file =
      test::read_file(test::shared_path("oracle/datasets/inputs/json_quirks.jsonl"));
  std::vector<std::vector<std::string>> found;
  std::string_view lines = file;
  std::string_view line;
  while (take_line(lines, line)) found.push_back(texts_of(std::string(line)));
  EXPECT_THAT(
      found, ElementsAre(ElementsAre("dup2"), ElementsAre("nan"), ElementsAre("num"),
                         ElementsAre("a/b"), ElementsAre("\U0001F600"),
                         ElementsAre("\U0001F600"
                                     "A"),
                         ElementsAre("emptykey"), ElementsAre("tabs"), ElementsAre("deep"),
                         ElementsAre("raw\x7f\u2028\u0085\u00a0x"), ElementsAre(std::string(1, '\0')),
                         ElementsAre("first sentence .", "second one!", "", " third"), ElementsAre(),
                         ElementsAre(""), ElementsAre("only"),
                         ElementsAre("ASCII only, no newline at the end of this file")));
}

TEST(JsonLine, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(texts_of("{\"text\":}"), ElementsAre("error: byte 9: expected a value, found \"}\""));
}

}  // namespace
}  // namespace meg
