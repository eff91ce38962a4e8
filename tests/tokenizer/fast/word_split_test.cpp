// The scanners of every instruction set cut texts exactly where no piece has both neighbours.

#include "libmeg/tokenizer/words/internal/word_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer::fast {
namespace {

const std::vector<std::string> kCharacters = {
    " ",      "\u2581", "\u2581", " ",      "a",         "b",      "Z",      "z",
    "@",      "[",      "`",      "{",      "0",         "9",      ",",      ".",
    "(",      "\t",     "\n",     "\x7f",   "\u00e9",    "\u0434", "\u2014", "\u4e00",
    "\u4e2d", "\u6587", "\u3042", "\uff0c", "\U0001f642"};

bool is_wide(const std::string& character) {
  return character.size() == 3 && character >= "\u3000";
}

bool is_letter(char c) { return ('a' <= (c | 0x20)) && (c | 0x20) <= 'z'; }

bool is_ascii(char c) { return static_cast<signed char>(c) >= 0; }

/// Characters of a text, and what WordSplit has to know of pieces, found in a simple way.
class Expected {
 public:
  Expected(const std::vector<std::vector<std::string>>& pieces, const std::string& mark)
      : mark_(mark) {
    for (const auto& piece : pieces) {
      for (size_t i = 1; i < piece.size(); ++i) add(piece[i - 1], piece[i]);
    }
  }

  void cut_before_marks() { before_mark_ = between_marks_ = false; }

  bool are_joined(const std::string& left, const std::string& right) const {
    if (is_wide(left) && is_wide(right)) return pairs_.contains({left, right});
    return pairs_.contains({shown(left), shown(right)});
  }

  /// Whether a cut is due between the two.
  bool cuts(const std::string& left, const std::string& right) const {
    if (left == mark_ && right == mark_) return !between_marks_;
    if (right == mark_) return !before_mark_;
    if (left == mark_) return !after_mark_;
    const bool is_plain = is_other(left) || is_other(right);
    return (is_plain || (is_wide(left) && is_wide(right))) && !are_joined(left, right);
  }

 private:
  static bool is_other(const std::string& c) { return is_ascii(c[0]) && !is_letter(c[0]); }

  /// Characters outside ASCII are alike beside one of ASCII.
  static std::string shown(const std::string& c) { return is_ascii(c[0]) ? c : "wide"; }

  void add(const std::string& left, const std::string& right) {
    before_mark_ |= left != mark_ && right == mark_;
    after_mark_ |= left == mark_ && right != mark_;
    between_marks_ |= left == mark_ && right == mark_;
    if (left == mark_ || right == mark_) return;
    pairs_.insert({left, right});
    pairs_.insert({shown(left), shown(right)});
  }

  std::set<std::pair<std::string, std::string>> pairs_;
  std::string mark_;
  bool before_mark_ = false, after_mark_ = false, between_marks_ = false;
};

std::string joined(const std::vector<std::string>& characters) {
  std::string text;
  for (const std::string& character : characters) text += character;
  return text;
}

std::vector<std::string> random_characters(std::mt19937& random, size_t count) {
  std::vector<std::string> characters(count);
  for (std::string& character : characters) {
    character = kCharacters[random() % kCharacters.size()];
  }
  return characters;
}

/// Pieces that hold a space mark nowhere, at their beginning, at their end, or anywhere.
std::vector<std::vector<std::string>> random_pieces(std::mt19937& random, unsigned marks,
                                                    const std::string& mark) {
  std::vector<std::vector<std::string>> pieces;
  for (size_t i = 0; i < 40; ++i) {
    std::vector<std::string> piece = random_characters(random, 1 + random() % 4);
    if (marks < 3) std::erase(piece, mark);
    if (marks == 1) piece.insert(piece.begin(), mark);
    if (marks == 2) piece.push_back(mark);
    pieces.push_back(piece);
  }
  return pieces;
}

/// The places where words start.
std::set<size_t> starts_of(WordScanner scanner, const WordSplit& split, const std::string& text) {
  std::string padded = text;
  padded.append(text::kTextPadding, '\xE4');
  WordScan scan(std::string_view(padded).substr(0, text.size()));
  scan.split = &split;
  std::set<size_t> starts;
  std::vector<uint32_t> found(kScanRoom);
  while (scan.position < scan.end) {
    const auto at = static_cast<size_t>(scan.position - padded.data());
    const size_t count = scanner(scan, found.data());
    EXPECT_TRUE(std::is_sorted(found.begin(), found.begin() + static_cast<ptrdiff_t>(count)));
    for (size_t i = 0; i < count; ++i) starts.insert(at + found[i]);
  }
  return starts;
}

TEST(WordSplit, CutsWhereNoPieceHasBothNeighbours) {
  std::mt19937 random(18);
  size_t wide_cuts = 0;
  for (unsigned round = 0; round < 120; ++round) {
    const bool is_symbol = round % 8 >= 4;
    const std::string mark = is_symbol ? "\u2581" : " ";
    const auto pieces = random_pieces(random, round % 4, mark);
    std::vector<std::string> texts;
    for (const auto& piece : pieces) texts.push_back(joined(piece));
    WordSplit split({texts.begin(), texts.end()},
                    is_symbol ? SpaceMark::kSymbol : SpaceMark::kSpace);
    Expected expected(pieces, mark);
    if (round % 3 == 0) {
      split.cut_before_marks();
      expected.cut_before_marks();
    }
    const auto characters = random_characters(random, round < 80 ? random() % 200 : 12000);
    const std::string text = joined(characters);
    const std::set<size_t> words =
        starts_of(vector_functions(InstructionSet::kPortable).scan_split, split, text);
    for (const InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
      if (set > best_instruction_set()) continue;
      EXPECT_EQ(starts_of(vector_functions(set).scan_split, split, text), words);
    }
    std::set<size_t> borders;
    size_t at = 0;
    for (size_t i = 1; i < characters.size(); ++i) {
      at += characters[i - 1].size();
      borders.insert(at);
      // Of two wide characters the filter may seem to know pairs that it does not; and their bytes
      // may belong to two calls.
      const bool is_cut = words.contains(at);
      const bool are_wide = is_wide(characters[i - 1]) && is_wide(characters[i]);
      if (are_wide) wide_cuts += is_cut;
      if (is_cut || !are_wide) {
        EXPECT_EQ(is_cut, expected.cuts(characters[i - 1], characters[i]))
            << characters[i - 1] << '|' << characters[i];
      }
    }
    EXPECT_TRUE(std::includes(borders.begin(), borders.end(), words.begin(), words.end()));
  }
  EXPECT_GT(wide_cuts, 500);
}

}  // namespace
}  // namespace meg::tokenizer::fast
