#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "libmeg/cleaning/words/internal/english_tables.h"

namespace meg::cleaning {

/// Of all characters that are likely, by code point; ranges hold the others.
class CharacterTable {
 public:
  CharacterTable() {
    for (const CharacterRange& range : ranges_) {
      for (char32_t c = range.first; c <= std::min<char32_t>(range.last, kDirect - 1); ++c) {
        flags_[c] = range.flags;
      }
    }
  }

  uint32_t flags(char32_t c) const {
    if (c < kDirect) return flags_[c];
    const auto after = std::upper_bound(
        ranges_.begin(), ranges_.end(), c,
        [](char32_t value, const CharacterRange& range) { return value < range.first; });
    if (after == ranges_.begin()) return 0;
    const CharacterRange& range = *(after - 1);
    return c <= range.last ? range.flags : 0;
  }

 private:
  static constexpr char32_t kDirect = 0x10000;

  const std::vector<CharacterRange>& ranges_ = english_tables().ranges;
  std::array<uint32_t, kDirect> flags_{};
};

inline const CharacterTable& character_table() {
  static const CharacterTable characters;
  return characters;
}

inline bool has(char32_t c, uint32_t flags) { return (character_table().flags(c) & flags) != 0; }

constexpr bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

}  // namespace meg::cleaning
