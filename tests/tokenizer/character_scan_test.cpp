// The scans for the first character that a set lacks, of every instruction set, beside a loop over
// characters.

#include "libmeg/tokenizer/words/internal/character_scan.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer {
namespace {

/// Has all of some blocks, all but one of others, and few of the rest.
bool is_in(char32_t c) {
  if (c >= 0x370 && c < 0x400) return c != 0x387;
  if (c >= 0xE00 && c < 0xE80) return c < 0xE40 || c % 7 != 0;
  if (c >= 0x3000 && c < 0xA000) return c != 0x3099;
  return c % 3 != 0;
}

size_t first_other(const CharacterSet& set, std::string_view text, size_t at) {
  while (at < text.size()) {
    const text::DecodedCodePoint c = text::decode_code_point(text.substr(at));
    if (!set.has(c.code_point)) return at;
    at += c.size;
  }
  return at;
}

class CharacterScanTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > best_instruction_set()) {
      GTEST_SKIP() << "this processor lacks " << instruction_set_name(GetParam());
    }
  }

  const CharacterSet set_{is_in};
  const CharacterScan scan_ = fast::vector_functions(GetParam()).scan_characters;
};

TEST_P(CharacterScanTest, FindsEveryCodePoint) {
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;  // surrogates
    // In a block and in what is left after the last one.
    for (const size_t before : {size_t{c % 67}, size_t{1}}) {
      std::string text(before, 'x');
      text::append_code_point(c, text);
      text.append(before == 1 ? 2 : 80, 'x');
      const size_t expected = c < 0x80 || is_in(c) ? text.size() : before;
      ASSERT_EQ(scan_(set_, text, 0), expected) << static_cast<uint32_t>(c);
    }
  }
}

TEST_P(CharacterScanTest, AgreesWithALoopOverCharacters) {
  std::mt19937 random(7);
  const std::vector<char32_t> begins = {0x20,  0x80,   0x370,  0x380,  0xE00,
                                        0xE40, 0x3080, 0x4E00, 0x1F600};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const char32_t begin = begins[random() % begins.size()];
    const size_t characters = random() % 120;
    while (text.size() < 3 * characters) {
      const char32_t from = random() % 4 == 0 ? begins[random() % begins.size()] : begin;
      const char32_t c = from + static_cast<char32_t>(random() % 0x40);
      // Mostly those of the set, so that scans go far.
      if (set_.has(c) || random() % 60 == 0) text::append_code_point(c, text);
    }
    for (size_t at = 0; at < text.size();) {
      const size_t found = scan_(set_, text, at);
      ASSERT_EQ(found, first_other(set_, text, at)) << text;
      if (found == text.size()) break;
      at = found + text::decode_code_point(std::string_view(text).substr(found)).size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CharacterScanTest,
                         testing::Values(InstructionSet::kPortable, InstructionSet::kAvx2,
                                         InstructionSet::kAvx512),
                         [](const auto& tested) {
                           return std::string(instruction_set_name(tested.param));
                         });

}  // namespace
}  // namespace meg::tokenizer
