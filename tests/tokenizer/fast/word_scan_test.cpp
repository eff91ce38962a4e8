#include "libmeg/tokenizer/words/internal/word_scan.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "libmeg/text/printable.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/words/internal/reference/gpt2_pretokenizer.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer::fast {
namespace {

class WordScan : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > best_instruction_set()) {
      GTEST_SKIP() << "this processor lacks " << instruction_set_name(GetParam());
    }
  }

  /// Where words start in text, which `behind` follows in memory.
  std::vector<size_t> starts(std::string_view text, char behind = '\0') const {
    std::string padded(text);
    padded.append(text::kTextPadding, behind);
    fast::WordScan scan(std::string_view(padded).substr(0, text.size()));
    std::vector<uint32_t> found(kScanRoom);
    std::vector<size_t> all;
    while (scan.position < scan.end) {
      const auto base = static_cast<size_t>(scan.position - padded.data());
      const size_t count = vector_functions(GetParam()).scan_words(scan, found.data());
      for (size_t i = 0; i < count; ++i) all.push_back(base + found[i]);
    }
    return all;
  }

  static std::vector<size_t> expected_starts(std::string_view text) {
    std::vector<size_t> all;
    for (size_t at = 0; at < text.size();
         at += tokenizer::reference::first_word_size(text.substr(at))) {
      all.push_back(at);
    }
    return all;
  }

  void expect_as_reference(const std::string& text) const {
    const std::vector<size_t> expected = expected_starts(text);
    for (const char behind : {'s', ' ', '\xA0', '\''}) {
      ASSERT_EQ(starts(text, behind), expected) << text::printable(text, 200);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, WordScan,
                         testing::Values(InstructionSet::kPortable, InstructionSet::kAvx2,
                                         InstructionSet::kAvx512),
                         [](const auto& tested) {
                           return std::string(instruction_set_name(tested.param));
                         });

/// A text of `characters` drawn from few kinds, so that every neighbourhood comes up.
std::string random_text(std::mt19937& random, int characters) {
  static const std::vector<std::string> kKinds = {
      "a",      "s",           "t",          "re",         "ll",         "'",      "'",
      "'ll",    "'s",          " ",          " ",          "  ",         "\n",     "\t",
      "\r",     "1",           "23",         "!",          "-",          "\x1c",   "\x7f",
      "\u00e9", "\u00a0",      "\u0085",     "\u2003",     "\u3000",     "\u8a9e", "\u0663",
      "\u2028", "\u0301",      "\U0001F600", "\U00010400", "\U0001D7D8", "\u00bd", "\u200b",
      "$",      "\u0416\u0437"};
  std::string text;
  while (characters-- > 0) text += kKinds[random() % kKinds.size()];
  return text;
}

TEST_P(WordScan, AgreesWithTheReferenceOnRandomText) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    expect_as_reference(random_text(random, static_cast<int>(random() % 100)));
    if (HasFatalFailure()) return;
  }
}

TEST_P(WordScan, AgreesWithTheReferenceAcrossScanBorders) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    expect_as_reference(random_text(random, 6000));
    if (HasFatalFailure()) return;
  }
}

TEST_P(WordScan, AgreesWithTheReferenceOnEveryCodePoint) {
  std::string text;
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    text += code_point % 3 == 0 ? "a" : code_point % 3 == 1 ? "7" : " ";
    text::append_code_point(code_point, text);
  }
  EXPECT_EQ(starts(text), expected_starts(text));
}

TEST_P(WordScan, PutsAContractionAtEveryPlaceOfABlock) {
  for (size_t before = 0; before < 130; ++before) {
    for (const char* tail : {"'s", "'ll", "'lls", "'re've", "'s ", "'l", "'", "'ves", "'d'd'd"}) {
      expect_as_reference(std::string(before, 'x') + tail);
      expect_as_reference(std::string(before, ' ') + tail);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(WordScan, PutsWhiteSpaceOfSeveralBytesAtEveryPlaceOfABlock) {
  for (size_t before = 0; before < 130; ++before) {
    for (const char* tail : {"\u3000", "\u3000x", " \u3000 x", "\u00a0\u00a0x", "\u3000\u3000"}) {
      expect_as_reference(std::string(before, 'x') + tail);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(WordScan, SurvivesBytesThatAreNotUtf8) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 300, '\0');
    for (char& c : text) c = static_cast<char>(random() % 4 == 0 ? random() : 0x80 | random());
    const std::vector<size_t> found = starts(text);
    ASSERT_EQ(found.empty(), text.empty());
    for (size_t k = 0; k < found.size(); ++k) {
      ASSERT_LT(found[k], text.size());
      ASSERT_TRUE(k == 0 || found[k - 1] < found[k]);
    }
    ASSERT_TRUE(found.empty() || found[0] == 0);
  }
}

}  // namespace
}  // namespace meg::tokenizer::fast
