#include "libmeg/tokenizer/models/internal/sentencepiece/fast/merge_pairs.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece::fast {

namespace {

constexpr int32_t kNoId = -1;

bool is_character(std::string_view text) { return text.size() == text::character_size(text[0]); }

/// The rank of each piece: how many different scores are higher.
std::vector<uint32_t> ranks_of(const std::vector<MergePairs::Piece>& pieces) {
  std::vector<float> scores;
  for (const MergePairs::Piece& piece : pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), is_better);
  const auto same = [](float a, float b) { return !is_better(a, b); };  // of sorted ones
  scores.erase(std::unique(scores.begin(), scores.end(), same), scores.end());
  std::vector<uint32_t> ranks;
  for (const MergePairs::Piece& piece : pieces) {
    const auto at = std::lower_bound(scores.begin(), scores.end(), piece.score, is_better);
    ranks.push_back(static_cast<uint32_t>(at - scores.begin()));
  }
  return ranks;
}

}  // namespace

/// The library joins two neighbours where their concatenation is a piece. So each way to cut a
/// piece into two symbols is a merge of its score, and a pair of numbers replaces the lookup of a
/// text. Cuts whose halves are neither pieces nor characters never come up: parts are always one or
/// the other.
MergePairs::MergePairs(const std::vector<Piece>& pieces, const std::vector<Piece>& user_symbols)
    : characters_(kPage, kNoSymbol) {
  std::unordered_map<std::string_view, uint32_t> symbols;  // of pieces of several characters
  for (const Piece& piece : pieces) {
    if (is_character(piece.text)) {
      add_character(piece.text, piece.id);
    } else {
      symbols[piece.text] = add_symbol(piece.id);
    }
  }
  size_t splits = 0;
  for (const Piece& piece : pieces) {
    for (size_t at = 0, size; at < piece.text.size(); at += size, ++splits) {
      size = text::character_size(piece.text[at]);
      add_character(std::string_view(piece.text).substr(at, size), kNoId);
    }
  }
  // Keep it at most half full, so that every search meets a free slot.
  const size_t slots = std::bit_ceil(2 * splits + 2);
  pairs_.assign(slots, kFree);
  merges_.resize(slots);
  shift_ = 64 - std::countr_zero(slots);
  const auto symbol_of = [&](std::string_view text) {
    if (is_character(text)) return character(text);
    const auto found = symbols.find(text);
    return found == symbols.end() ? kNoSymbol : found->second;
  };
  const std::vector<uint32_t> ranks = ranks_of(pieces);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view text = pieces[i].text;
    for (size_t at = text::character_size(text[0]); at < text.size();
         at += text::character_size(text[at])) {
      const uint32_t left = symbol_of(text.substr(0, at));
      const uint32_t right = symbol_of(text.substr(at));
      if (left == kNoSymbol || right == kNoSymbol) continue;
      insert(left, right, {ranks[i], symbols[text]});
    }
  }
  std::vector<PieceTrie::Entry> entries;
  for (const Piece& symbol : user_symbols) {
    entries.emplace_back(symbol.text, static_cast<int32_t>(add_symbol(symbol.id)));
  }
  user_symbols_ = PieceTrie(std::move(entries));
}

uint32_t MergePairs::character(std::string_view character) const {
  const char32_t code_point = text::decode_code_point(character).code_point;
  return characters_[pages_[code_point / kPage] * kPage + code_point % kPage];
}

uint32_t MergePairs::add_symbol(int32_t id) {
  ids_.push_back(id);
  return static_cast<uint32_t>(ids_.size() - 1);
}

/// Does nothing where the character has its symbol already.
void MergePairs::add_character(std::string_view character, int32_t id) {
  const char32_t code_point = text::decode_code_point(character).code_point;
  uint16_t& page = pages_[code_point / kPage];
  if (page == 0) {
    page = static_cast<uint16_t>(characters_.size() / kPage);
    characters_.resize(characters_.size() + kPage, kNoSymbol);
  }
  uint32_t& symbol = characters_[page * kPage + code_point % kPage];
  if (symbol == kNoSymbol) symbol = add_symbol(id);
}

void MergePairs::insert(uint32_t left, uint32_t right, Merge merge) {
  const uint64_t pair = uint64_t{left} << 32 | right;
  size_t i = slot_of(pair);
  while (pairs_[i] != kFree) i = (i + 1) & (pairs_.size() - 1);
  pairs_[i] = pair;
  merges_[i] = merge;
}

}  // namespace meg::tokenizer::sentencepiece::fast
