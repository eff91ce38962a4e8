#pragma once

#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

namespace meg::tokenizer {

namespace script_tables {

// Expanded from its file of ranges.
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];

}  // namespace script_tables

/// Of characters that belong to any script, such as the space.
inline constexpr uint8_t kAnyScript = 0;

/// The script of a code point, as a number, as UnicodeScripts of the PyPI package `tokenizers` has
/// it: of an older Unicode than its patterns, with kana as Han. code_point: below 0x110000.
inline uint8_t script_of(char32_t code_point) {
  return two_stage_value(script_tables::kStage1, script_tables::kStage2, code_point);
}

}  // namespace meg::tokenizer
