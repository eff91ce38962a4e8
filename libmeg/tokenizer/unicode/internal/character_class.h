#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

namespace meg::tokenizer {

/// The property of a code point that the patterns of Hugging Face's tokenizers and of tiktoken use.
/// The classes are disjoint; \p{L} is the last three.
enum class CharacterClass : uint8_t {
  kOther = 0,    ///< \p{P}, \p{S}
  kMark = 1,     ///< \p{M}
  kNumber = 2,   ///< \p{N}
  kSpace = 3,    ///< \s
  kControl = 4,  ///< \p{C} but for \s
  kUpper = 5,    ///< \p{Lu}, \p{Lt}
  kLower = 6,    ///< \p{Ll}
  kLetter = 7,   ///< \p{Lm}, \p{Lo}
};

inline constexpr size_t kCharacterClasses = 8;

namespace character_class_tables {

// They follow from the general categories.
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];

}  // namespace character_class_tables

/// The class according to the PyPI packages `tokenizers` and `tiktoken`. kOther for surrogates and
/// values above U+10FFFF.
inline CharacterClass character_class(char32_t code_point) {
  if (code_point > 0x10FFFF) return CharacterClass::kOther;
  return CharacterClass{two_stage_value(character_class_tables::kStage1,
                                        character_class_tables::kStage2, code_point)};
}

constexpr bool is_letter(CharacterClass kind) { return kind >= CharacterClass::kUpper; }

inline bool is_space(char32_t code_point) {
  return character_class(code_point) == CharacterClass::kSpace;
}

}  // namespace meg::tokenizer
