#include "libmeg/text/json/json_text.h"

#include <gtest/gtest.h>

namespace meg::text {
namespace {

/// What json.dumps() of CPython 3.11 prints for os.fsdecode() of the bytes.
TEST(JsonText, EscapesStringsAsPythonDoes) {
  const auto dumped = [](std::string_view bytes) {
    JsonText text;
    text.string(bytes);
    return text.text();
  };
  EXPECT_EQ(dumped("a/b \"\\~"), R"("a/b \"\\~")");
  EXPECT_EQ(dumped("\b\t\n\f\r"), R"("\b\t\n\f\r")");
  EXPECT_EQ(dumped("\x01\x1f\x7f"), R"("\u0001\u001f\u007f")");
  EXPECT_EQ(dumped("\xC3\xA9\xF0\x9F\x98\x80"), R"("\u00e9\ud83d\ude00")");
  EXPECT_EQ(dumped("\xC3(\xFF"), R"("\udcc3(\udcff")");
}

}  // namespace
}  // namespace meg::text
