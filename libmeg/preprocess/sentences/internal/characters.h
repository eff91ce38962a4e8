#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/preprocess/sentences/internal/character_runs.h"

namespace meg::preprocess {

/// A character of a text, which must be UTF-8.
struct Character {
  char32_t code_point = 0;
  size_t size = 0;   ///< bytes; 0 at the text's end
  uint8_t bits = 0;  ///< of CharacterBit; none at the text's end

  bool is(CharacterBit bit) const { return (bits & bit) != 0; }
};

/// The character at byte `at`.
Character character_at(std::string_view text, size_t at);

/// The first byte from `at` on that begins a character with `bit`, or one without; else the end.
size_t find_with(CharacterBit bit, std::string_view text, size_t at);
size_t find_without(CharacterBit bit, std::string_view text, size_t at);

/// The size of `text` without the whitespace at its end, as str.rstrip() has it.
size_t size_without_trailing_space(std::string_view text);

}  // namespace meg::preprocess
