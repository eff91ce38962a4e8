#pragma once

#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

namespace meg::tokenizer {

namespace lower_case_tables {

// Expanded from its file of ranges.
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];
extern const int32_t kDifferences[];

}  // namespace lower_case_tables

/// The lower case of a code point as the PyPI package `tokenizers` sees it; a code point whose
/// lower case is several stays. code_point: below 0x110000.
inline char32_t lower_case(char32_t code_point) {
  const uint8_t place =
      two_stage_value(lower_case_tables::kStage1, lower_case_tables::kStage2, code_point);
  return code_point + static_cast<char32_t>(lower_case_tables::kDifferences[place]);
}

}  // namespace meg::tokenizer
