#include "libmeg/tokenizer/unicode/internal/unicode_class.h"

#include <gtest/gtest.h>

#include <string>

namespace meg::tokenizer {
namespace {

TEST(UnicodeClass, KnowsLettersNumbersAndSpaces) {
  EXPECT_EQ(unicode_class(U'a'), UnicodeClass::kLetter);
  EXPECT_EQ(unicode_class(U'ª'), UnicodeClass::kLetter);
  EXPECT_EQ(unicode_class(U'語'), UnicodeClass::kLetter);
  EXPECT_EQ(unicode_class(0x10FFFD), UnicodeClass::kOther);
  EXPECT_EQ(unicode_class(U'7'), UnicodeClass::kNumber);
  EXPECT_EQ(unicode_class(U'½'), UnicodeClass::kNumber);
  EXPECT_EQ(unicode_class(U'Ⅷ'), UnicodeClass::kNumber);
  EXPECT_EQ(unicode_class(U'_'), UnicodeClass::kOther);
  EXPECT_EQ(unicode_class(0x0301), UnicodeClass::kOther) << "a combining mark is no letter";
}

TEST(UnicodeClass, SpaceIsWhiteSpaceAndNothingElse) {
  const std::u32string spaces =
      U"\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
      U"\u200A\u2028\u2029\u202F\u205F\u3000";
  int found = 0;
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (unicode_class(code_point) != UnicodeClass::kSpace) continue;
    ++found;
    EXPECT_NE(spaces.find(code_point), std::u32string::npos)
        << "U+" << std::hex << static_cast<uint32_t>(code_point);
  }
  EXPECT_EQ(found, 25);
  EXPECT_EQ(unicode_class(0x1C), UnicodeClass::kOther);
  EXPECT_EQ(unicode_class(0x200B), UnicodeClass::kOther);
}

TEST(UnicodeClass, KnowsUnicode18) {
  EXPECT_EQ(unicode_class(0x3D000), UnicodeClass::kLetter) << "Seal, new in 18";
  EXPECT_EQ(unicode_class(0x323B0), UnicodeClass::kLetter) << "CJK Extension J, new in 17";
}

TEST(UnicodeClass, IsOtherOutsideUnicodeAndForSurrogates) {
  EXPECT_EQ(unicode_class(0xD800), UnicodeClass::kOther);
  EXPECT_EQ(unicode_class(0xDFFF), UnicodeClass::kOther);
  EXPECT_EQ(unicode_class(0x10FFFF), UnicodeClass::kOther);
  EXPECT_EQ(unicode_class(0x110000), UnicodeClass::kOther);
  EXPECT_EQ(unicode_class(0xFFFFFFFF), UnicodeClass::kOther);
}

}  // namespace
}  // namespace meg::tokenizer
