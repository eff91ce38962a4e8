#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace meg::tokenizer::sentencepiece::fast {

/// Divides a text in SpaceForm into words that can be encoded independently: between two characters
/// that no piece contains side by side, where only spaces and other characters are distinguished.
class WordSplit {
 public:
  /// pieces: all that can be part of a text's encoding, in SpaceForm.
  explicit WordSplit(const std::vector<std::string>& pieces) {
    for (const std::string& piece : pieces) {
      for (size_t i = 1; i < piece.size(); ++i) cuts_[piece[i - 1] == ' '][piece[i] == ' '] = false;
    }
    cuts_[false][false] = false;
  }

  /// The end of the word that begins at `word`. A space must stand at `end`, and 16 bytes after
  /// it must be readable.
  const char* end_of_word(const char* word, const char* end) const {
    const char* at = word;
    while (true) {
      const bool space = *at == ' ';
      at = space ? at + 1 : find_space(at);
      if (at >= end) return end;
      if (cuts_[space][*at == ' ']) return at;
    }
  }

 private:
  static const char* find_space(const char* at) {
    while (true) {
      // Most words are shorter than 16 bytes, and whether they are shorter than 8 is hard to guess.
      const uint64_t first = spaces(at);
      const uint64_t second = spaces(at + 8);
      const int in_first = std::countr_zero(first) / 8;  // 8 where there is none
      const int in_second = 8 + std::countr_zero(second) / 8;
      if ((first | second) != 0) return at + (first != 0 ? in_first : in_second);
      at += 16;
    }
  }

  /// A bit in each of the 8 bytes that are spaces; the lowest is exact.
  static uint64_t spaces(const char* at) {
    constexpr uint64_t kOnes = 0x0101010101010101u;
    uint64_t bytes;
    std::memcpy(&bytes, at, sizeof(bytes));
    bytes ^= kOnes * ' ';
    return (bytes - kOnes) & ~bytes & (kOnes << 7);
  }

  bool cuts_[2][2] = {{true, true}, {true, true}};  // [before is a space][after is a space]
};

}  // namespace meg::tokenizer::sentencepiece::fast
