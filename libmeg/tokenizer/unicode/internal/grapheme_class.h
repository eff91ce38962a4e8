#pragma once

#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

namespace meg::tokenizer {

namespace grapheme_class_tables {

// Expanded from its file of ranges.
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];

}  // namespace grapheme_class_tables

/// How a code point joins others in a grapheme, in Unicode's terms, as the PyPI package
/// `tokenizers` sees it. Bits, of which a code point may have several.
struct GraphemeClass {
  static constexpr uint8_t kJoins = 1;      ///< Extend, SpacingMark, ZWJ: with what is before it.
  static constexpr uint8_t kPrepended = 2;  ///< Prepend: with what is after it.
  static constexpr uint8_t kConsonant = 4;  ///< Indic_Conjunct_Break=Consonant
  static constexpr uint8_t kLinker = 8;     ///< Indic_Conjunct_Break=Linker
  static constexpr uint8_t kConjunct = 16;  ///< Indic_Conjunct_Break=Linker or Extend

  uint8_t bits;

  bool has(uint8_t bit) const { return (bits & bit) != 0; }
};

/// code_point: below 0x110000.
inline GraphemeClass grapheme_class(char32_t code_point) {
  return {
      two_stage_value(grapheme_class_tables::kStage1, grapheme_class_tables::kStage2, code_point)};
}

}  // namespace meg::tokenizer
