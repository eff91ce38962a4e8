// Words cut between characters that no token joins have the ids of the whole: random vocabularies
// whose tokens hold characters, parts of them, and tokens that merging never gives.

#include "libmeg/tokenizer/words/internal/merge_boundaries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/fast_encoder.h"
#include "libmeg/tokenizer/models/internal/bpe/rank_model_builder.h"
#include "libmeg/tokenizer/models/internal/bpe/reference/reference_encoder.h"
#include "libmeg/tokenizer/words/internal/reference/gpt2_pretokenizer.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer::fast {
namespace {

/// Characters that share bytes, and some that are no candidates for a cut.
const std::vector<std::string> kCharacters = {"\u4e00", "\u4e2d", "\u6587", "\u3042",
                                              "\u30fc", "\ud55c", "\u0e01", "\u0e02",
                                              "\u2014", "\u00e9", "a",      " "};

std::string random_text(std::mt19937& random, size_t characters) {
  std::string text;
  for (size_t i = 0; i < characters; ++i) text += kCharacters[random() % kCharacters.size()];
  return text;
}

/// The 256 bytes and `count` pieces of random texts, in random order, so that some are never
/// merged. with_characters: after what merges to each character, without which hardly any word is
/// cut.
std::vector<std::string> random_tokens(std::mt19937& random, size_t count, bool with_characters) {
  std::vector<std::string> tokens;
  if (with_characters) {
    std::set<std::string> parts;
    for (const std::string& character : kCharacters) {
      for (size_t size = 2; size <= character.size(); ++size)
        parts.insert(character.substr(0, size));
    }
    tokens.assign(parts.begin(), parts.end());
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string text = random_text(random, 4);
    const std::string token = text.substr(random() % (text.size() - 1), 2 + random() % 8);
    const bool is_new = std::find(tokens.begin(), tokens.end(), token) == tokens.end();
    if (token.size() > 1 && is_new) tokens.push_back(token);
  }
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

BpeModel model_of(const std::vector<std::string>& tokens) {
  auto model = RankModelBuilder::build(tokens, 0, "tokens");
  EXPECT_TRUE(model) << model.status().message();
  return *std::move(model);
}

std::vector<int32_t> encoded(TokenEncoder& encoder, const std::string& text) {
  TokenBuffer tokens(DType::kInt32);
  std::string padded = text;
  padded.append(text::kTextPadding, '\xE4');
  EXPECT_TRUE(encoder.encode(std::string_view(padded).substr(0, text.size()), tokens).ok());
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens.size(); ++i) ids.push_back(tokens.at(i));
  return ids;
}

std::set<uint32_t> starts(const std::string& text, InstructionSet set,
                          const MergeBoundaries* boundaries) {
  const std::string padded = text + std::string(text::kTextPadding, '\xE4');
  fast::WordScan scan(std::string_view(padded).substr(0, text.size()));
  scan.boundaries = boundaries;
  std::vector<uint32_t> found(kScanRoom);
  std::set<uint32_t> all;
  while (scan.position < scan.end) {
    const auto base = static_cast<uint32_t>(scan.position - padded.data());
    const size_t count = vector_functions(set).scan_words(scan, found.data());
    for (size_t i = 0; i < count; ++i) all.insert(base + found[i]);
  }
  return all;
}

/// The borders inside the words of a text, which another word follows.
std::vector<uint32_t> cuts(const MergeBoundaries& boundaries, std::string text) {
  text += " .";
  const std::set<uint32_t> words = starts(text, InstructionSet::kPortable, nullptr);
  std::set<uint32_t> parts = starts(text, InstructionSet::kPortable, &boundaries);
  EXPECT_TRUE(std::includes(parts.begin(), parts.end(), words.begin(), words.end()));
  for (const InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= best_instruction_set()) {
      EXPECT_EQ(starts(text, set, &boundaries), parts) << instruction_set_name(set);
    }
  }
  for (const uint32_t start : words) parts.erase(start);
  return {parts.begin(), parts.end()};
}

TEST(MergeBoundaries, GiveTheIdsOfWholeWords) {
  std::mt19937 random(18);
  size_t cut_texts = 0;
  for (int round = 0; round < 300; ++round) {
    const BpeModel model = model_of(random_tokens(random, 1 + random() % 40, round % 4 != 0));
    const auto table = MergeTable::build(model);
    ASSERT_TRUE(table);
    // Every set in turn, from the weakest one to the best one of this processor.
    const auto set =
        static_cast<InstructionSet>(round % (static_cast<int>(best_instruction_set()) + 1));
    const auto fast =
        new_fast_encoder(model, *table, DType::kInt32, vector_functions(set).scan_words, set);
    const auto plain = tokenizer::reference::new_reference_encoder(
        model, DType::kInt32, tokenizer::reference::first_word_size);
    for (int i = 0; i < 30; ++i) {
      const std::string text = random_text(random, 1 + random() % 40);
      ASSERT_EQ(encoded(*fast, text), encoded(*plain, text)) << round << ": " << text;
      cut_texts += cuts(table->boundaries(), text).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(cut_texts, 300U);
}

std::vector<std::string> all_bytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

/// The boundaries of the bytes and `more` tokens.
MergeBoundaries boundaries_with(const std::vector<std::string>& more) {
  std::vector<std::string> tokens = all_bytes();
  tokens.insert(tokens.end(), more.begin(), more.end());
  const auto table = MergeTable::build(model_of(tokens));
  EXPECT_TRUE(table);
  return table->boundaries();
}

std::vector<uint32_t> cuts_with(const std::vector<std::string>& more, const std::string& word) {
  return cuts(boundaries_with(more), word);
}

/// All that next_cut() finds in a word, one after another.
std::vector<size_t> next_cuts(const MergeBoundaries& boundaries, const std::string& word) {
  const std::string padded = word + std::string(text::kTextPadding, '\xE4');
  const auto inside = std::string_view(padded).substr(0, word.size());
  std::vector<size_t> found;
  size_t at = boundaries.next_cut(inside, 0);
  for (; at < word.size(); at = boundaries.next_cut(inside, at)) found.push_back(at);
  EXPECT_EQ(at, word.size());
  return found;
}

TEST(MergeBoundaries, AreCharactersThatATokenHasSideBySide) {
  using Borders = std::vector<uint32_t>;
  const std::string word = "\u4e00\u4e2d\u6587";  // E4 B8 80, E4 B8 AD, E6 96 87
  EXPECT_EQ(cuts_with({}, word), (Borders{3, 6}));
  EXPECT_EQ(cuts_with({}, " a" + word), (Borders{5, 8}));
  EXPECT_EQ(cuts_with({}, "a\u00e9\u0e01\u0e01"), Borders()) << "others are not looked at";
  EXPECT_EQ(cuts_with({"\xE4\xB8", "\xAD\xE6"}, word), Borders{3}) << "parts of characters";
  EXPECT_EQ(cuts_with({"\x80\xE4", "\x80\xE4\xB8"}, word), Borders{6});
}

TEST(MergeBoundaries, AreFoundOneAfterAnother) {
  using Borders = std::vector<size_t>;
  const std::string word = "\u4e00\u4e2d\u6587";
  EXPECT_EQ(next_cuts(boundaries_with({}), " a" + word), (Borders{5, 8}));
  EXPECT_EQ(next_cuts(boundaries_with({"\xE4\xB8", "\xAD\xE6"}), word), Borders{3});
  EXPECT_EQ(next_cuts(boundaries_with({}), "a\u00e9\u0e01\u0e02\u2014a\u0e01"), (Borders{6, 9}));
  EXPECT_EQ(next_cuts(boundaries_with({"\x81\xE0"}), "\u0e02\u0e01\u0e02\u0e02"), (Borders{3, 9}));
  EXPECT_EQ(next_cuts(MergeBoundaries(), word), Borders());
  EXPECT_EQ(next_cuts(boundaries_with({}), "\u0e01"), Borders());
  EXPECT_EQ(next_cuts(boundaries_with({}), ""), Borders());
}

TEST(MergeBoundaries, KeepTokensThatMergingNeverGivesFromBeingParts) {
  using Borders = std::vector<uint32_t>;
  const std::string pair = "\u4e00\u4e2d";
  const std::string other = "\u6587";
  const std::string two = "aaa" + other + other;  // not beside the start of a text
  EXPECT_EQ(cuts_with({pair}, two + pair + other), Borders{6}) << "no merges lead to the pair";
  EXPECT_EQ(cuts_with({pair}, two + pair + other + other), (Borders{6, 18}));
  EXPECT_EQ(cuts_with({pair}, two + "\u4e2d\u4e00"), (Borders{6, 9, 12}));
  EXPECT_EQ(cuts_with({"\u4e00"}, two + "\u4e00" + other + other), (Borders{6, 15}))
      << "the character is no part";
  const std::string end = "\u4e2d";
  EXPECT_EQ(cuts_with({pair + "a" + end}, two + end + other + other), (Borders{6, 15}))
      << "it is the end of a word";
  EXPECT_EQ(cuts_with({end + "a" + pair}, two + end + other + other), (Borders{6, 15}))
      << "it is the beginning of one";
  EXPECT_EQ(cuts_with({"a" + pair}, two + pair + other), Borders{6});
  EXPECT_EQ(cuts_with({"\xE4\xB8", "\u4e00", "\xE4\xB8\xAD", pair}, two + pair + other),
            (Borders{6, 9, 15}));
}

TEST(MergeBoundaries, CutWordsAtEveryPlaceOfABlock) {
  const BpeModel model = model_of(all_bytes());
  const auto table = MergeTable::build(model);
  ASSERT_TRUE(table);
  for (size_t before = 0; before < 130; ++before) {
    const auto at = static_cast<uint32_t>(before);
    EXPECT_EQ(cuts(table->boundaries(), std::string(before, 'x') + "\u4e00\u4e2d\u6587"),
              (std::vector<uint32_t>{at + 3, at + 6}));
  }
}

}  // namespace
}  // namespace meg::tokenizer::fast
