#include "libmeg/generation/internal/stop_rules.h"

#include <gtest/gtest.h>

#include "libmeg/generation/internal/repeated_ngrams.h"
#include "tests/generation/letter_tokenizer.h"

namespace meg::generation {
namespace {

const test::LetterTokenizer& letters() {
  static const test::LetterTokenizer tokenizer({"a", "\n", "\n\n", ".\n", ":", "<end>"}, 5);
  return tokenizer;
}

constexpr serving::StopRules kNone{.on_eod = false};

bool ends(const serving::StopRules& rules, const std::vector<int32_t>& tokens) {
  return ends_text(rules, letters(), tokens);
}

TEST(StopRulesTest, EachRuleEndsATextByItself) {
  const serving::StopRules on_eod{.on_eod = true};
  EXPECT_TRUE(ends(on_eod, {0, 5}));
  EXPECT_FALSE(ends(on_eod, {5, 0}));
  EXPECT_FALSE(ends(kNone, {0, 5}));
  const serving::StopRules on_eol{.on_eod = false, .on_eol = true};
  for (const int32_t newline : {1, 2, 3}) EXPECT_TRUE(ends(on_eol, {0, newline}));
  EXPECT_FALSE(ends(on_eol, {1, 0}));
  EXPECT_FALSE(ends(on_eol, {0, 5}));
  const serving::StopRules on_double{.on_eod = false, .on_double_eol = true};
  EXPECT_TRUE(ends(on_double, {0, 2}));
  EXPECT_TRUE(ends(on_double, {1, 1}));
  EXPECT_FALSE(ends(on_double, {0, 1}));
  EXPECT_FALSE(ends(on_double, {3, 1})) << "not a newline alone";
  EXPECT_FALSE(ends(on_double, {1}));
}

TEST(StopRulesTest, ANewlineIsForbiddenBehindAColonOnly) {
  const NewlineAfterColon newline(letters());
  EXPECT_EQ(newline.forbidden_after(4), 1);
  EXPECT_EQ(newline.forbidden_after(0), std::nullopt);
  EXPECT_TRUE(newline.check().ok());
  const NewlineAfterColon without(test::LetterTokenizer::numbers(5));
  EXPECT_EQ(without.check().code(), StatusCode::kInvalidArgument);
}

TEST(RepeatedNgramsTest, EndsOfEarlierRunsAreFound) {
  const std::vector<int32_t> tokens = {1, 2, 3, 1, 2, 4, 1, 2};
  EXPECT_EQ(repeated_ngram_ends(tokens, 3), (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(repeated_ngram_ends(tokens, 2), (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(repeated_ngram_ends(tokens, 1), tokens);
  EXPECT_TRUE(repeated_ngram_ends(tokens, 4).empty());
  EXPECT_TRUE(repeated_ngram_ends(tokens, 20).empty());
}

}  // namespace
}  // namespace meg::generation
