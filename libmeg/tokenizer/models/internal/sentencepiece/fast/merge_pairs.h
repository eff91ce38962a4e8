#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/piece_trie.h"

namespace meg::tokenizer::sentencepiece::fast {

/// The merges of a model whose pieces are joined by score, for lookup by pair. Immutable; shared
/// between threads.
///
/// A symbol is a number for a piece or for a character that only pieces hold.
class MergePairs {
 public:
  struct Piece {
    std::string text;
    int32_t id;
    float score;
  };

  static constexpr uint32_t kNoRank = UINT32_MAX;
  static constexpr uint32_t kNoSymbol = UINT32_MAX;

  struct Merge {
    uint32_t rank = kNoRank;  ///< lower first; equal for pieces of equal score
    uint32_t result = kNoSymbol;
  };

  /// pieces: normal ones. user_symbols: those that are never joined nor split.
  MergePairs(const std::vector<Piece>& pieces, const std::vector<Piece>& user_symbols);

  /// The symbol of one character, given by its bytes; kNoSymbol if no piece contains it.
  uint32_t character(std::string_view character) const;

  /// The merge of two neighbours.
  Merge find(uint32_t left, uint32_t right) const {
    const uint64_t pair = uint64_t{left} << 32 | right;
    for (size_t i = slot_of(pair);; i = (i + 1) & (pairs_.size() - 1)) {
      if (pairs_[i] == pair) return merges_[i];
      if (pairs_[i] == kFree) return {};
    }
  }

  /// The id of a symbol; negative for a character that is no piece.
  int32_t id(uint32_t symbol) const { return ids_[symbol]; }

  /// Values are symbols.
  const PieceTrie& user_symbols() const { return user_symbols_; }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  static constexpr size_t kPage = 256;

  size_t slot_of(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9e3779b97f4a7c15u) >> shift_);
  }

  uint32_t add_symbol(int32_t id);
  void add_character(std::string_view character, int32_t id);
  void insert(uint32_t left, uint32_t right, Merge merge);

  std::vector<uint64_t> pairs_;  // a power of two, open addressing, at most half full
  std::vector<Merge> merges_;
  int shift_ = 0;
  std::vector<int32_t> ids_;
  std::vector<uint32_t> characters_;  // pages of 256 code points that are there
  std::array<uint16_t, 0x110000 / kPage> pages_{};
  PieceTrie user_symbols_;
};

}  // namespace meg::tokenizer::sentencepiece::fast
