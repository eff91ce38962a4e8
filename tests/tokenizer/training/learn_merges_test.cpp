#include "libmeg/tokenizer/training/internal/learn_merges.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace meg::tokenizer {
namespace {

using Words = std::map<std::string, int64_t>;

TrainingWords training_words(const Words& words) {
  TrainingWords result;
  for (const auto& [word, count] : words) result.add(word, count);
  return result;
}

/// Merges as merges.txt writes them, by both implementations.
std::vector<std::string> learn(const Words& words, const MergeGoal& goal,
                               const std::vector<std::string>& special_tokens = {}) {
  const TrainingWords training = training_words(words);
  TokenList tokens(special_tokens);
  TokenList reference_tokens(special_tokens);
  const auto learned = fast::learn_merges(training, goal, tokens, {});
  EXPECT_TRUE(learned.has_value());
  EXPECT_EQ(*learned, reference::learn_merges(training, goal, reference_tokens));
  std::vector<std::string> lines;
  for (const auto& [left, right] : *learned) lines.push_back(tokens[left] + " " + tokens[right]);
  EXPECT_EQ(std::move(tokens).take(), std::move(reference_tokens).take());
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LearnMerges, TakesTheMostFrequentPairFirst) {
  EXPECT_EQ(learn({{"low", 5}, {"lower", 2}, {"newest", 6}}, {.vocab_size = 259}),
            (Lines{"w e", "l o", "e we"}));
}

TEST(LearnMerges, TakesTheSmallerIdsOfEqualPairs) {
  EXPECT_EQ(learn({{"zb", 3}, {"ay", 3}, {"ab", 3}}, {.vocab_size = 258}), (Lines{"a b", "a y"}));
}

TEST(LearnMerges, MergesOverlappingPairsFromTheLeft) {
  EXPECT_EQ(learn({{"aaaaa", 1}}, {.vocab_size = 300}), (Lines{"a a", "aa a", "aa aaa"}));
}

TEST(LearnMerges, StopsBelowTheMinFrequency) {
  EXPECT_EQ(learn({{"ab", 3}, {"cd", 2}}, {.vocab_size = 300, .min_frequency = 3}), (Lines{"a b"}));
}

TEST(LearnMerges, StopsAtTheVocabularySize) {
  EXPECT_EQ(learn({{"abcd", 3}}, {.vocab_size = 256}), Lines());
  EXPECT_EQ(learn({{"abcd", 3}}, {.vocab_size = 258}, {"<s>"}), (Lines{"a b"}));
}

TEST(LearnMerges, LeavesASpecialTokenTheIdOfAnEqualOne) {
  EXPECT_EQ(learn({{"the", 2}}, {.vocab_size = 259}, {"the"}).size(), 2U);
}

TEST(LearnMerges, IsCancelledByItsProgress) {
  Words words;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) words[{a, b}] = 1;
  }
  TokenList tokens({});
  const auto learned = fast::learn_merges(training_words(words), {.vocab_size = 900}, tokens,
                                          [](size_t) { return false; });
  ASSERT_FALSE(learned.has_value());
  EXPECT_EQ(learned.error().code(), StatusCode::kCancelled);
}

// Few letters give many ties, overlapping pairs, and tokens that two merges make.
TEST(LearnMerges, EqualsTheReferenceOnRandomWords) {
  std::mt19937 random(18);
  for (int round = 0; round < 1000; ++round) {
    Words words;
    const size_t letters = 1 + random() % 4;
    for (size_t count = random() % 12; count > 0; --count) {
      std::string word;
      for (size_t length = 2 + random() % 14; length > 0; --length) {
        word += static_cast<char>('a' + random() % letters);
      }
      words[word] = 1 + static_cast<int64_t>(random() % 4);
    }
    const MergeGoal goal{.vocab_size = 256 + random() % 60,
                         .min_frequency = static_cast<int64_t>(random() % 3)};
    learn(words, goal, random() % 2 == 0 ? Lines{} : Lines{"ab", "aab", "<s>"});
    if (HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace meg::tokenizer
