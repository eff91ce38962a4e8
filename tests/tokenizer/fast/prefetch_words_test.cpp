// Words that are prefetched many at a time have the keys and the sets of words that are prefetched
// alone.

#include "libmeg/tokenizer/words/internal/prefetch_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"
#include "libmeg/tokenizer/words/internal/word_cache.h"

namespace meg::tokenizer::fast {
namespace {

using AsciiCache = WordCache<uint16_t, 16, 32, 1024>;
using WideCache = WordCache<uint16_t, 16, 64, 512>;

/// Words of 1 to `longest` bytes, of which about one in eight has bytes outside ASCII.
std::vector<std::string> random_words(std::mt19937& random, size_t count, size_t longest) {
  std::vector<std::string> words(count);
  for (std::string& word : words) {
    const unsigned any = random() % 8 == 0 ? 0xff : 0x7f;
    word.resize(1 + random() % longest);
    for (char& byte : word) byte = static_cast<char>(random() & any);
  }
  return words;
}

TEST(PrefetchWords, GivesTheKeysAndSetsOfWordsAlone) {
  const PrefetchWords prefetch = vector_functions(best_instruction_set()).prefetch_words;
  if (prefetch == nullptr) GTEST_SKIP() << "this processor prefetches one word at a time";
  const AsciiCache ascii;
  const WideCache wide;
  std::mt19937 random(11);
  size_t prefetched = 0;
  for (int round = 0; round < 2000; ++round) {
    // Few words are too long, so that most calls come to several groups.
    const std::vector<std::string> words =
        random_words(random, random() % 40, round % 2 == 0 ? 15 : 17);
    std::string text;
    std::vector<uint32_t> starts = {0};
    for (const std::string& word : words) {
      text += word;
      starts.push_back(static_cast<uint32_t>(text.size()));
    }
    text.append(text::kTextPadding, '\xE4');
    std::vector<WordKey<16>> keys(words.size() + 1);
    std::vector<const void*> sets(words.size() + 1);
    const size_t count = prefetch(text.data(), starts.data(), words.size(), ascii.set_table(),
                                  wide.set_table(), keys.data(), sets.data());
    ASSERT_LE(count, words.size());
    const auto is_short = [](const std::string& word) { return word.size() < 16; };
    const auto too_long = std::find_if_not(words.begin(), words.end(), is_short);
    ASSERT_GT(count + 4, static_cast<size_t>(too_long - words.begin())) << "it stops too early";
    for (size_t i = 0; i < count; ++i) {
      const WordKey<16> key((words[i] + std::string(16, 'x')).data(), words[i].size());
      EXPECT_TRUE(keys[i] == key) << i;
      const void* const first = key.is_ascii()
                                    ? static_cast<const void*>(ascii.first_place(key.hash()))
                                    : wide.first_place(key.hash());
      EXPECT_EQ(sets[i], first) << i;
    }
    prefetched += count;
  }
  EXPECT_GT(prefetched, 10000U);
}

}  // namespace
}  // namespace meg::tokenizer::fast
