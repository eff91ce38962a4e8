#include "libmeg/tokenizer/words/internal/word_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace meg::tokenizer::fast {
namespace {

using Ids = std::vector<uint16_t>;

/// A word followed by bytes that must not matter.
WordKey<16> key_of(std::string word, char behind = 'x') {
  const size_t size = word.size();
  word.append(16, behind);
  return {word.data(), size};
}

TEST(WordKey, TellsWordsApartByBytesAndLength) {
  EXPECT_TRUE(key_of("abc", 'x') == key_of("abc", '\0'));
  EXPECT_FALSE(key_of("abc") == key_of("abd"));
  EXPECT_FALSE(key_of("a") == key_of(std::string("a\0", 2)));
  EXPECT_FALSE(key_of(std::string("\0", 1)) == key_of(std::string("\0\0", 2)));
}

TEST(WordCache, GivesWhatWasPutInOrNothing) {
  WordCache<uint16_t, 16, 32, 8> cache;
  std::map<std::string, Ids> all;
  std::mt19937 random(1);
  int found = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string word(1 + random() % 15, '\0');
    for (char& c : word) c = static_cast<char>(random() % 2);
    const auto key = key_of(word);
    const auto* entry = cache.find(key, key.hash());
    if (entry != nullptr) {
      ++found;
      ASSERT_EQ(Ids(entry->ids.begin(), entry->ids.begin() + entry->count), all[word]);
    } else {
      const Ids ids(1 + random() % 7, static_cast<uint16_t>(random()));
      cache.insert(key, key.hash(), ids);
      all[word] = ids;
    }
  }
  EXPECT_GT(found, 0);
}

TEST(WordCache, TellsAwaitedWordsFromThoseOfTooManyIds) {
  WordCache<uint16_t, 16, 32, 8> cache;
  const auto key = key_of("word");
  const auto* const entry = [&] {
    cache.await(key, key.hash(), 5);
    return cache.find(key, key.hash());
  }();
  ASSERT_NE(entry, nullptr);
  EXPECT_FALSE(entry->has_ids());
  EXPECT_TRUE(entry->is_awaited());
  EXPECT_EQ(entry->awaited(), 5);
  EXPECT_FALSE(cache.insert(key, key.hash(), Ids(8, 1)));
  EXPECT_FALSE(entry->is_awaited());
  EXPECT_FALSE(entry->has_ids());
  EXPECT_TRUE(cache.insert(key, key.hash(), Ids(7, 1)));
  EXPECT_TRUE(cache.find(key, key.hash())->has_ids());
}

TEST(WordCache, KeepsTheEntryUsedLast) {
  WordCache<uint16_t, 16, 32, 2> cache;
  const uint64_t hash = 1;  // of all words, so that they are in one set
  const auto insert = [&](const char* word) { cache.insert(key_of(word), hash, Ids{1}); };
  const auto knows = [&](const char* word) { return cache.find(key_of(word), hash) != nullptr; };
  insert("a");
  insert("b");
  ASSERT_TRUE(knows("a"));
  insert("c");
  EXPECT_TRUE(knows("a"));
  EXPECT_FALSE(knows("b"));
}

TEST(LongWordCache, ForgetsEverythingWhenItsStoreIsFull) {
  LongWordCache<uint16_t> cache(64, 1000);
  const auto word = [](int i) { return std::string(90, static_cast<char>('a' + i)); };
  for (int i = 0; i < 20; ++i) {
    const Ids ids(3, static_cast<uint16_t>(i));
    cache.insert(word(i), hash_word(word(i)), ids);
    const auto found = cache.find(word(i), hash_word(word(i)));
    ASSERT_EQ(Ids(found.begin(), found.end()), ids);
  }
  EXPECT_TRUE(cache.find(word(0), hash_word(word(0))).empty());
}

}  // namespace
}  // namespace meg::tokenizer::fast
