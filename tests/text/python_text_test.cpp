#include "libmeg/text/python_text.h"

#include <gtest/gtest.h>

#include <set>

namespace meg::text {
namespace {

TEST(PythonText, WhiteSpaceIsWhatPythonTakesForIt) {
  // [hex(i) for i in range(0x110000) if chr(i).isspace()]
  const std::set<char32_t> spaces = {0x9,    0xa,    0xb,    0xc,    0xd,    0x1c,   0x1d,   0x1e,
                                     0x1f,   0x20,   0x85,   0xa0,   0x1680, 0x2000, 0x2001, 0x2002,
                                     0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a,
                                     0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
  for (char32_t c = 0; c < 0x110000; ++c)
    ASSERT_EQ(is_python_space(c), spaces.contains(c)) << uint32_t{c};
}

TEST(PythonText, StripTakesSpaceOfEveryKindFromBothEnds) {
  EXPECT_EQ(python_strip("\u3000 \x1c a b\u00a0\u2009"), "a b");
  EXPECT_EQ(python_strip("\u200b"), "\u200b") << "of no width, but no white space";
  EXPECT_EQ(python_strip(" \t\n"), "");
  EXPECT_EQ(python_strip(""), "");
}

TEST(PythonText, LastWordEndsAtWhiteSpaceOfEveryKind) {
  EXPECT_EQ(last_word("I can see"), "see");
  EXPECT_EQ(last_word("caf\u00e9\u2028na\u00efve\u3000\n"), "na\u00efve");
  EXPECT_EQ(last_word("one"), "one");
  EXPECT_EQ(last_word(" \u00a0"), "");
  EXPECT_EQ(last_word(""), "");
}

TEST(PythonText, LastWordIsAPlaceInTheText) {
  const std::string_view text = "door to door ";
  EXPECT_EQ(last_word(text).data(), text.data() + 8);
}

}  // namespace
}  // namespace meg::text
