#pragma once

#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

namespace meg::tokenizer {

/// The property of a code point that the patterns of byte-level BPE use: \p{L}, \p{N}, \s or none
/// of them. The three are disjoint.
enum class UnicodeClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

namespace unicode_class_tables {

// Expanded from its file of ranges.
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];

}  // namespace unicode_class_tables

/// The class according to the PyPI package `regex`, whose version is stated at the head of
/// unicode_class.ranges. kOther for surrogates and values above U+10FFFF.
inline UnicodeClass unicode_class(char32_t code_point) {
  if (code_point > 0x10FFFF) return UnicodeClass::kOther;
  return UnicodeClass{
      two_stage_value(unicode_class_tables::kStage1, unicode_class_tables::kStage2, code_point)};
}

}  // namespace meg::tokenizer
