#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libmeg/tokenizer/words/internal/character_sets.h"

namespace meg::tokenizer::fast {

/// The characters of a text that normalizing leaves as they are. Immutable; shared between threads.
class PlainCharacters {
 public:
  // What a rule says about a character; combined with |.
  static constexpr uint8_t kChanges = 1;    ///< it may change whatever follows it
  static constexpr uint8_t kBegins = 2;     ///< it may change if one that kContinues follows it
  static constexpr uint8_t kContinues = 4;  ///< it is the second one of a rule

  /// rules: by code point, below U+10000. has_space_controls: see below.
  PlainCharacters(std::vector<uint8_t> rules, bool has_space_controls);

  // Bytes of the character at `at`; 0 if it has to be looked up. 6 bytes from `at` on must be
  // readable, even if the text ends at `end` before.

  /// For a character that stays as it is.
  [[gnu::always_inline]] size_t plain_size(const char* at, const char* end) const {
    const Character character = decode(at);
    if (character.size == 0 || character.size > static_cast<size_t>(end - at)) return 0;
    const uint8_t rules = rules_[character.code_point];
    if ((rules & kChanges) != 0) return 0;
    if ((rules & kBegins) == 0) return character.size;
    return may_continue(at + character.size, end) ? 0 : character.size;
  }

  /// For one that stays as it is and leaves the one before it so, unless the next one changes it.
  [[gnu::always_inline]] size_t size_alone(const char* at, const char* end) const {
    const Character character = decode(at);
    if (character.size == 0 || character.size > static_cast<size_t>(end - at)) return 0;
    const uint8_t rules = rules_[character.code_point];
    return (rules & (kChanges | kContinues)) == 0 ? character.size : 0;
  }

  // Sets of characters for which size_alone() is not 0, or that become a space.

  /// Whether all ASCII characters from space to tilde are.
  bool has_graphic() const { return has_graphic_; }

  /// Whether all are from U+4000 to U+9FFF and from U+B000 to U+CFFF.
  bool has_ideographs() const { return has_ideographs_; }

  /// Whether tabulator, line feed and carriage return become a space each, whatever follows them.
  bool has_space_controls() const { return has_space_controls_; }

  const TwoByteSet& two_byte_set() const { return two_byte_set_; }

  const ThreeByteSet& three_byte_set() const { return three_byte_set_; }

 private:
  struct Character {
    char32_t code_point;
    size_t size;  // 0 for what is not the start of a character or of one of four bytes
  };

  [[gnu::always_inline]] static Character decode(const char* at) {
    const auto byte = [at](size_t i) { return static_cast<unsigned char>(at[i]); };
    const auto is_continuation = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
    const unsigned lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    const char32_t two = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    if (lead < 0xE0) return {two, lead >= 0xC2 && is_continuation(1) ? size_t{2} : 0};
    const char32_t three = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    const bool is_one = lead < 0xF0 && is_continuation(1) && is_continuation(2) && three >= 0x800;
    return {three, is_one ? size_t{3} : 0};
  }

  /// Whether the character at `at` may be the second one of a rule.
  bool may_continue(const char* at, const char* end) const {
    if (at == end || static_cast<signed char>(*at) >= 0) return false;
    const Character next = decode(at);
    return next.size == 0 || (rules_[next.code_point] & kContinues) != 0;
  }

  std::vector<uint8_t> rules_;
  bool has_space_controls_, has_graphic_, has_ideographs_;
  TwoByteSet two_byte_set_;
  ThreeByteSet three_byte_set_;
};

}  // namespace meg::tokenizer::fast
