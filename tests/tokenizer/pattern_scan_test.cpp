#include "libmeg/tokenizer/words/internal/pattern_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libmeg/text/printable.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/regex/internal/regex_matcher.h"

namespace meg::tokenizer {
namespace {

const std::map<std::string, std::vector<std::string>> kSequences = {
    {"deepseek",
     {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
      R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
      R"(\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {"digits", {"Digits", std::string(kGpt2Pattern)}}};

/// Those of Unicode 16, and what is new in Unicode 17.
const std::string kNumbersOfDigits = "[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]";

/// A scanner beside the regular expression whose words it finds.
class PatternScan : public testing::TestWithParam<std::tuple<const char*, InstructionSet>> {
 protected:
  void SetUp() override {
    const auto [name, set] = GetParam();
    if (set > best_instruction_set()) {
      GTEST_SKIP() << "this processor lacks " << instruction_set_name(set);
    }
    const auto sequence = kSequences.find(name);
    if (sequence != kSequences.end()) {
      scan_ = find_known_sequence(sequence->second)->scanner(set);
      for (const std::string& step : sequence->second) {
        const std::string regex = step == KnownSequence::kDigits ? kNumbersOfDigits : step;
        matchers_.push_back(*RegexMatcher::compile(regex, "pattern"));
      }
      return;
    }
    const KnownPattern& pattern = *find_pattern_by_name(name);
    scan_ = pattern.scanner(set);
    const bool of_oniguruma = find_known_pattern(pattern.regex) == &pattern;
    matchers_.push_back(*RegexMatcher::compile(
        pattern.regex, "pattern",
        of_oniguruma ? RegexMatcher::Dialect::kOniguruma : RegexMatcher::Dialect::kTiktoken));
  }

  /// Where words start in text, which `behind` follows in memory.
  std::vector<size_t> starts(std::string_view text, char behind) const {
    std::string padded(text);
    padded.append(text::kTextPadding, behind);
    fast::WordScan scan(std::string_view(padded).substr(0, text.size()));
    std::vector<uint32_t> found(fast::kScanRoom);
    std::vector<size_t> all;
    while (scan.position < scan.end) {
      const auto base = static_cast<size_t>(scan.position - padded.data());
      const size_t count = scan_(scan, found.data());
      for (size_t i = 0; i < count; ++i) all.push_back(base + found[i]);
    }
    return all;
  }

  std::vector<size_t> expected_starts(std::string_view text) const {
    std::vector<size_t> all;
    add_expected(text, 0, 0, all);
    return all;
  }

  /// The parts that the matchers from `step` on isolate, of text that begins at `base`.
  void add_expected(std::string_view text, size_t base, size_t step,
                    std::vector<size_t>& all) const {
    if (step == matchers_.size()) return all.push_back(base);
    for (size_t at = 0; at < text.size();) {
      const auto match =
          matchers_[step].find(text, at)->value_or(std::pair(text.size(), text.size()));
      for (const auto& [begin, end] : {std::pair(at, match.first), match}) {
        if (begin < end) add_expected(text.substr(begin, end - begin), base + begin, step + 1, all);
      }
      at = match.second;
    }
  }

  void expect_words_of_the_expression(const std::string& text) const {
    const std::vector<size_t> expected = expected_starts(text);
    for (const char behind : {'s', ' ', '\n', '\xA0'}) {
      ASSERT_EQ(starts(text, behind), expected) << text::printable(text, 300);
    }
  }

  fast::WordScanner scan_ = nullptr;
  std::vector<RegexMatcher> matchers_;  // each finds words within what those before it leave
};

INSTANTIATE_TEST_SUITE_P(
    All, PatternScan,
    testing::Combine(
        testing::Values("gpt2", "llama3", "qwen2", "qwen3.5", "cl100k", "cl100k of Oniguruma",
                        "o200k", "v1", "v2", "deepseek", "digits"),
        testing::Values(InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512)),
    [](const auto& tested) {
      std::string name = std::get<0>(tested.param);
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == ' ' || c == '.'; }, '_');
      return name + "_" + std::string(instruction_set_name(std::get<1>(tested.param)));
    });

/// Draws characters from all kinds, or from few of them, so that long runs come up, too.
std::string random_text(std::mt19937& random, size_t characters) {
  std::vector<std::string> chosen = {
      "a",      "s",      "t",      "B",          "S",          "re",          "LL",     "'",
      "'",      "'s",     "'Ve",    " ",          " ",          "  ",          "\n",     "\r",
      "\r\n",   "\t",     "1",      "234",        "!",          "/",           "-",      "\x1c",
      "\u00e9", "\u00c9", "\u017f", "\u00a0",     "\u3000",     "\u0085",      "\u8a9e", "\u05d0",
      "\u0663", "\u0301", "\u0e31", "\U0001F600", "\U00010400", "\U00010428",  "\u01c5", "\u200b",
      "\u00bd", "\u00aa", "$",      "word",       "Word",       "\u0416\u0437"};
  // What sequences of steps tell apart.
  for (const char* kind : {"\u30fb", "\u30a2", "\u3099", "\u309b", "\u3040", "\u3002", "\u9fa6",
                           "\u3400", "\u4e00", "(", ".x", "\x01", "\ue000", "\U00011de2"}) {
    chosen.emplace_back(kind);
  }
  if (random() % 4 != 0) {
    const std::vector<std::string> all = std::exchange(chosen, {});
    for (size_t i = 0; i < 2 + random() % 8; ++i) chosen.push_back(all[random() % all.size()]);
  }
  std::string text;
  while (characters-- > 0) text += chosen[random() % chosen.size()];
  return text;
}

TEST_P(PatternScan, FindsTheWordsOfTheExpressionInRandomText) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    expect_words_of_the_expression(random_text(random, random() % 150));
    if (HasFatalFailure()) return;
  }
}

TEST_P(PatternScan, FindsThemAcrossTheBordersOfCalls) {
  std::mt19937 random(2);
  for (int i = 0; i < 4; ++i) {
    expect_words_of_the_expression(random_text(random, 5000));
    if (HasFatalFailure()) return;
  }
}

TEST_P(PatternScan, FindsThemAtEveryPlaceOfABlock) {
  for (size_t before = 0; before < 70; ++before) {
    for (const char* tail : {"'s", "'LLx", "'re've", "'s's ", "\u3000x", " \n  x", "\n\n \n",
                             "!\n/!", "\n/x", "1234567", "aBCd", "\u201cx\u201dy", "  (x", "\t(x",
                             "\u0301A", "!\u0301", "\u05d0B", "' 's"}) {
      for (const char* head : {"x", " ", "!", "1", "X", "\n"}) {
        std::string text;
        for (size_t i = 0; i < before; ++i) text += head;
        expect_words_of_the_expression(text + tail);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(PatternScan, ClassesCodePointsAsTheExpression) {
  std::string text;
  for (char32_t code_point = 0; code_point < 0x20000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    text += code_point % 3 == 0 ? "a" : code_point % 3 == 1 ? "7" : " ";
    text::append_code_point(code_point, text);
  }
  EXPECT_EQ(starts(text, ' '), expected_starts(text));
}

}  // namespace
}  // namespace meg::tokenizer
