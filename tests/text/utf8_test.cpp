#include "libmeg/text/utf8.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace meg::text {
namespace {

using std::string_literals::operator""s;

std::string replaced(std::string_view bytes) {
  std::string text;
  append_replacing_invalid_utf8(bytes, text);
  return text;
}

TEST(Utf8, ReplacesLikePython) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"plain \0 text"s, "plain \0 text"s},
      {"\xC3\xA9\xE8\xAA\x9E\xF0\x9F\x98\x80", "\xC3\xA9\xE8\xAA\x9E\xF0\x9F\x98\x80"},
      {"\x80", "\uFFFD"},
      {"\xC3", "\uFFFD"},
      {"\xC0\x80", "\uFFFD\uFFFD"},
      {"\xE2\x82", "\uFFFD"},
      {"\xE1\x80\x41", "\uFFFD\x41"},
      {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xF0\x90\x80", "\uFFFD"},
      {"\xF0\x8F\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF1\x80\x80\xC3\xA9", "\uFFFD\xC3\xA9"},
      {"\xFF\xFE", "\uFFFD\uFFFD"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(replaced(bytes), text);
}

constexpr std::array<unsigned char, 24> kLimits = {0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                                   0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED,
                                                   0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};

/// The number-th string of `size` bytes at the limits of the rules, in lexical order.
std::string telling_string(size_t number, size_t size) {
  std::string bytes(size, '\0');
  for (size_t at = size; at-- > 0; number /= kLimits.size()) {
    bytes[at] = static_cast<char>(kLimits[number % kLimits.size()]);
  }
  return bytes;
}

TEST(Utf8, ReplacesEveryMixOfLimitsLikePython) {
  uint64_t digest = 0xCBF29CE484222325;
  size_t strings = 1;
  for (size_t size = 1; size <= 4; ++size) {
    strings *= kLimits.size();
    for (size_t number = 0; number < strings; ++number) {
      for (const char byte : replaced(telling_string(number, size)) + "\n") {
        digest = (digest ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
      }
    }
  }
  EXPECT_EQ(digest, 0x7d405799b4d0ad09) << "see scripts/utf8_replacement_digest.py";
}

TEST(Utf8, AppendsWhatItDecodes) {
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point == 0xD800) code_point = 0xE000;
    std::string text;
    append_code_point(code_point, text);
    const DecodedCodePoint found = decode_code_point(text);
    ASSERT_EQ(static_cast<uint32_t>(found.code_point), static_cast<uint32_t>(code_point));
    ASSERT_EQ(found.size, text.size());
  }
}

TEST(Utf8, FindsTheCharacterBefore) {
  const std::string text = "a\u00E9\u8A9E\U0001F600";
  for (const auto& [end, begin] : {std::pair<size_t, size_t>{1, 0}, {3, 1}, {6, 3}, {10, 6}}) {
    EXPECT_EQ(begin_of_character_before(text, end), begin) << end;
  }
  EXPECT_EQ(begin_of_character_before("\x80\x80", 2), 0U);  // nothing begins there
  EXPECT_EQ(begin_of_character_before("a\x80\x80", 3), 0U);
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("valid \xC3\xA9"), std::string::npos);
  EXPECT_EQ(find_invalid_utf8("valid \xC3\xA9 \xE2\x82 more"), 9u);
  EXPECT_EQ(find_invalid_utf8("\xFF"), 0u);
}

TEST(Utf8, FindsWhatTheDecoderFindsInEveryMix) {
  const std::string before(70, 'x');  // more than what is looked at in one step
  size_t strings = 1;
  for (size_t size = 1; size <= 4; ++size) {
    strings *= kLimits.size();
    for (size_t number = 0; number < strings; number += 1 + number % 5) {
      const std::string bytes = telling_string(number, size);
      ASSERT_EQ(find_invalid_utf8(before + bytes) == std::string::npos, replaced(bytes) == bytes);
    }
  }
}

}  // namespace
}  // namespace meg::text
