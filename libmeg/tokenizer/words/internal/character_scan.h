#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/words/internal/character_sets.h"

namespace meg::tokenizer {

/// A set of characters that has all of ASCII. Immutable; shared between threads.
class CharacterSet {
 public:
  /// is_in: whether a code point is in the set; asked for all from 0x80 to 0x10FFFF.
  template <class IsIn>
  explicit CharacterSet(const IsIn& is_in) : bits_(kCodePoints / 64) {
    for (char32_t c = 0; c < kCodePoints; ++c) {
      bits_[c / 64] |= uint64_t{c < 0x80 || is_in(c)} << (c % 64);
    }
    const auto has_it = [this](char32_t c) { return has(c); };
    two_byte_set_ = fast::two_byte_set(has_it);
    three_byte_set_ = fast::three_byte_set(has_it);
  }

  /// Also for what is no code point, such as text::kInvalidCodePoint.
  bool has(char32_t c) const { return c >= kCodePoints || (bits_[c / 64] >> (c % 64) & 1) != 0; }

  const fast::TwoByteSet& two_byte_set() const { return two_byte_set_; }

  const fast::ThreeByteSet& three_byte_set() const { return three_byte_set_; }

 private:
  static constexpr char32_t kCodePoints = 0x110000;

  std::vector<uint64_t> bits_;
  fast::TwoByteSet two_byte_set_;
  fast::ThreeByteSet three_byte_set_;
};

/// Where the first character that a set lacks begins, from `at` on, where a character begins; the
/// size of the text if there is none. text: UTF-8; no byte outside it is read.
using CharacterScan = size_t (*)(const CharacterSet& set, std::string_view text, size_t at);

}  // namespace meg::tokenizer
