#include "libmeg/text/terminal_text.h"

#include <gtest/gtest.h>

namespace meg::text {
namespace {

TEST(TerminalTextTest, TextsWithNewlinesAndTabsStayAsTheyAre) {
  for (const std::string text :
       {"", "Hello\n\tworld\n", "Naïve café, 東京 and 🙂", "\\x1b"}) {
    EXPECT_EQ(terminal_text(text), text);
  }
}

TEST(TerminalTextTest, WhatATerminalWouldObeyIsSpelledOut) {
  EXPECT_EQ(terminal_text("a\x1b[2Jb\rc\bd\x7f"), "a\\x1b[2Jb\\x0dc\\x08d\\x7f");
  EXPECT_EQ(terminal_text(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(terminal_text("\xc2\x9b"
                          "31m\xc2\xa0"),
            "\\xc2\\x9b31m\xc2\xa0");
  EXPECT_EQ(terminal_text("\x9b"
                          "31m\xe6\x9d"),
            "\\x9b31m\\xe6\\x9d");
}

}  // namespace
}  // namespace meg::text
