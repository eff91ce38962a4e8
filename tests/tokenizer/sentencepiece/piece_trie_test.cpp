// Walks through a trie find the texts that it was made of, and no others.

#include "libmeg/tokenizer/models/internal/piece_trie.h"

#include <gtest/gtest.h>

#include <climits>
#include <map>
#include <random>
#include <set>
#include <string>

namespace meg::tokenizer {
namespace {

/// A text of few kinds of bytes at its beginning, as pieces have, and of all kinds after it.
std::string random_text(std::mt19937& random) {
  std::string text;
  for (size_t size = 1 + random() % 7; text.size() < size;) {
    const unsigned kinds = text.size() < 3 ? 20 : 256;
    text.push_back(static_cast<char>(random() % kinds + (kinds < 256 ? 0xD0 : 0)));
  }
  return text;
}

TEST(PieceTrie, KnowsItsTextsAndTheirBeginnings) {
  std::mt19937 random(3);
  for (const size_t count : {0, 1, 2, 300, 30000}) {
    std::map<std::string, int32_t> texts;
    while (texts.size() < count) texts.emplace(random_text(random), texts.size());
    std::set<std::string> beginnings;
    for (const auto& [text, value] : texts) {
      for (size_t size = 1; size <= text.size(); ++size) beginnings.insert(text.substr(0, size));
    }
    const PieceTrie trie({texts.begin(), texts.end()});
    EXPECT_EQ(trie.empty(), texts.empty());

    const auto check = [&](const std::string& text) {
      uint32_t node = trie.first(static_cast<unsigned char>(text[0]));
      size_t longest = 0;
      for (size_t size = 1; size <= text.size(); ++size) {
        const std::string beginning = text.substr(0, size);
        ASSERT_EQ(node != PieceTrie::kNoNode, beginnings.contains(beginning));
        if (node == PieceTrie::kNoNode) break;
        const auto known = texts.find(beginning);
        const bool is_known = known != texts.end();
        if (is_known) longest = size;
        EXPECT_EQ(trie.value(node), is_known ? known->second : PieceTrie::kNoValue);
        if (size < text.size()) node = trie.next(node, static_cast<unsigned char>(text[size]));
      }
      EXPECT_EQ(trie.longest_prefix(text, INT_MAX), longest);
    };
    for (const auto& [text, value] : texts) check(text + '\0');
    for (int i = 0; i < 20000; ++i) check(random_text(random));
    for (int byte = 0; byte < 256; ++byte) check(std::string(2, static_cast<char>(byte)));
  }
}

}  // namespace
}  // namespace meg::tokenizer
