#include "libmeg/tokenizer/models/internal/bpe/fast/word_merger.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "libmeg/tokenizer/models/internal/bpe/bpe_model_builder.h"
#include "libmeg/tokenizer/models/internal/bpe/reference/bpe.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/tiny_model.h"

namespace meg::tokenizer::fast {
namespace {

using Pieces = std::vector<uint32_t>;

BpeModel trained_model() {
  const std::string folder = MEG_SOURCE_DIR "/testdata/tokenizer/";
  auto model = BpeModel::load(folder + "vocab.json", folder + "merges.txt");
  EXPECT_TRUE(model) << model.error().message();
  return std::move(model).value();
}

/// Merges over the letters a to c, several of which give one piece, in an order that no training
/// gives.
BpeModel wild_model(std::mt19937& random, MergeOrder order = MergeOrder::kRounds) {
  std::vector<std::string> pieces = {"a", "b", "c"};
  std::vector<std::string> added;
  std::vector<std::string> lines;
  while (lines.size() < 16) {
    const std::string left = pieces[random() % pieces.size()];
    const std::string right = pieces[random() % pieces.size()];
    const std::string line = left + " " + right + "\n";
    if (left.size() + right.size() > 8 ||
        std::find(lines.begin(), lines.end(), line) != lines.end()) {
      continue;
    }
    lines.push_back(line);
    if (std::find(pieces.begin(), pieces.end(), left + right) == pieces.end()) {
      pieces.push_back(left + right);
      added.push_back(left + right);
    }
  }
  std::shuffle(lines.begin(), lines.end(), random);
  std::string merges = "#version\n";
  for (const std::string& line : lines) merges += line;
  const std::string name = "wild";
  const auto vocabulary = Vocabulary::parse(test::vocab_json(added), name);
  const auto list = parse_merge_list(merges, name);
  BpeRules rules;
  rules.merge_order = order;
  BpeModelBuilder builder(*vocabulary, name, name, rules);
  EXPECT_TRUE(builder.add_merges(*list).ok());
  return std::move(builder).build();
}

std::string random_word(std::mt19937& random, size_t size, std::string_view letters) {
  std::string word(size, ' ');
  for (char& c : word) c = letters[random() % letters.size()];
  return word;
}

Pieces expected_pieces(const BpeModel& model, const std::string& word) {
  const std::vector<int32_t> pieces = tokenizer::reference::Bpe(model).merge(word);
  return {pieces.begin(), pieces.end()};
}

/// The pieces through windows; empty where the word cannot be cut.
Pieces merged_in_windows(WordMerger& merger, const std::string& word, size_t window_bytes) {
  Pieces all;
  const auto append = [&](std::span<const uint32_t> pieces) {
    all.insert(all.end(), pieces.begin(), pieces.end());
  };
  return merger.merge_windows(word, append, window_bytes) ? all : Pieces();
}

TEST(WordMerger, AgreesWithTheReferenceAtEveryLength) {
  const BpeModel model = trained_model();
  const auto table = MergeTable::build(model);
  ASSERT_TRUE(table);
  WordMerger merger(*table);
  std::mt19937 random(1);
  for (size_t size = 1; size < 300; ++size) {
    const std::string word = random_word(random, size, "etaoinshrdlu");
    const auto pieces = merger.merge(word);
    ASSERT_EQ(Pieces(pieces.begin(), pieces.end()), expected_pieces(model, word)) << word;
  }
}

/// Words of one size that differ in what is hard about them: letters, any bytes (so no UTF-8), one
/// letter alone, a few bytes again and again.
std::vector<std::string> hard_words(std::mt19937& random, size_t size) {
  std::string every_byte(256, ' ');
  for (size_t i = 0; i < 256; ++i) every_byte[i] = static_cast<char>(i);
  std::vector<std::string> words;
  for (const std::string_view letters : {"etaoinshrdlu", "0123456789", "e"}) {
    words.push_back(random_word(random, size, letters));
  }
  words.push_back(random_word(random, size, every_byte));
  std::string repeats = random_word(random, 1 + random() % 20, "aeinst\xc3\xa9");
  while (repeats.size() < size) repeats += repeats;
  words.push_back(repeats.substr(0, size));
  return words;
}

TEST(WordMerger, AgreesWithTheReferenceWhereItsTreeGrows) {
  const BpeModel model = trained_model();
  const auto table = MergeTable::build(model);
  ASSERT_TRUE(table);
  WordMerger merger(*table);
  std::mt19937 random(5);
  for (const size_t size : {1, 2, 31, 32, 33, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097, 9000}) {
    for (const std::string& word : hard_words(random, size)) {
      const auto pieces = merger.merge(word);
      ASSERT_EQ(Pieces(pieces.begin(), pieces.end()), expected_pieces(model, word)) << size;
    }
  }
}

TEST(WordMerger, AgreesWithTheReferenceOnAWordOf100000Bytes) {
  const BpeModel model = trained_model();
  const auto table = MergeTable::build(model);
  ASSERT_TRUE(table);
  WordMerger merger(*table);
  std::mt19937 random(6);
  const std::string word = random_word(random, 100000, "etaoin");
  const Pieces expected = expected_pieces(model, word);
  const auto pieces = merger.merge(word);
  EXPECT_EQ(Pieces(pieces.begin(), pieces.end()), expected);
  EXPECT_EQ(merged_in_windows(merger, word, WordMerger::kWindowBytes), expected);
}

TEST(WordMerger, AgreesWithTheReferenceOnMergesInAnyOrder) {
  std::mt19937 random(2);
  for (int i = 0; i < 600; ++i) {
    const BpeModel model =
        wild_model(random, i % 3 == 0 ? MergeOrder::kRounds : MergeOrder::kOneByOne);
    const auto table = MergeTable::build(model);
    ASSERT_TRUE(table);
    WordMerger merger(*table);
    for (const size_t size : {2, 4, 5, 8, 20, 32, 33, 97, 400}) {
      const std::string word = random_word(random, size, "aaabbc");
      const auto pieces = merger.merge(word);
      ASSERT_EQ(Pieces(pieces.begin(), pieces.end()), expected_pieces(model, word)) << word;
    }
  }
}

TEST(WordMerger, MergesWordsTogetherAsEachAlone) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const BpeModel model =
        wild_model(random, i % 2 == 0 ? MergeOrder::kRounds : MergeOrder::kOneByOne);
    const auto table = MergeTable::build(model);
    ASSERT_TRUE(table);
    WordMerger merger(*table);
    std::vector<std::string> words;
    std::vector<WordMerger::ShortWord> together;
    for (size_t k = 0; k < 1 + random() % 70; ++k) {
      words.push_back(random_word(random, 1 + random() % WordMerger::kShortBytes, "aaabbc"));
      together.emplace_back(words.back(), *table);
    }
    merger.merge_together(together);
    for (size_t k = 0; k < words.size(); ++k) {
      Pieces pieces;
      together[k].for_each([&pieces](uint32_t piece) { pieces.push_back(piece); });
      ASSERT_EQ(pieces, expected_pieces(model, words[k])) << words[k];
    }
  }
}

TEST(WordMerger, WindowsGiveThePiecesOfTheWholeWord) {
  std::mt19937 random(3);
  int cut = 0;
  for (int i = 0; i < 300; ++i) {
    const BpeModel model = wild_model(random);
    const auto table = MergeTable::build(model);
    ASSERT_TRUE(table);
    WordMerger merger(*table);
    const std::string word = random_word(random, 1 + random() % 1000, i % 2 ? "aaabbc" : "a");
    const Pieces pieces = merged_in_windows(merger, word, 64 + random() % 100);
    if (pieces.empty()) continue;
    ++cut;
    ASSERT_EQ(pieces, expected_pieces(model, word)) << word;
  }
  EXPECT_GT(cut, 250) << "words that cannot be cut are rare";
}

TEST(WordMerger, CutsTrainedWordsOfAnyLength) {
  const BpeModel model = trained_model();
  const auto table = MergeTable::build(model);
  ASSERT_TRUE(table);
  WordMerger merger(*table);
  std::mt19937 random(4);
  for (const size_t size : {300, 3000, 5000}) {
    const std::string word = random_word(random, size, "etaoinshrdlucmfwypvbgkqjxz");
    EXPECT_EQ(merged_in_windows(merger, word, 256), expected_pieces(model, word));
  }
}

}  // namespace
}  // namespace meg::tokenizer::fast
