#pragma once

#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

namespace meg::tokenizer {

namespace step_class_tables {

// Expanded from its file of ranges.
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];

}  // namespace step_class_tables

/// The property of a code point, besides its CharacterClass, that steps of the PyPI package
/// `tokenizers` use.
enum class StepClass : uint8_t {
  kControl = 1,         ///< What clean_text of BertNormalizer removes.
  kNonspacingMark = 2,  ///< What strip_accents of BertNormalizer removes, after NFD.
  kPunctuation = 4,     ///< Punctuation and BertPreTokenizer split at these.
  kWord = 8,            ///< \w of Whitespace
  kNumeric = 16,        ///< Digits splits at these.
};

/// code_point: below 0x110000.
inline bool is_of(StepClass step_class, char32_t code_point) {
  const uint8_t bits =
      two_stage_value(step_class_tables::kStage1, step_class_tables::kStage2, code_point);
  return (bits & static_cast<uint8_t>(step_class)) != 0;
}

}  // namespace meg::tokenizer
