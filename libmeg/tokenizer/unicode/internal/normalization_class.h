#pragma once

#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

namespace meg::tokenizer {

namespace normalization_class_tables {

// Expanded from its file of ranges.
extern const uint8_t kStage1[kStage1Size];
extern const uint8_t kStage2[][kBlockSize];

inline uint8_t class_of(char32_t code_point) {
  return two_stage_value(kStage1, kStage2, code_point);
}

}  // namespace normalization_class_tables

/// Whether NFC, NFD, NFKC or NFKD of the PyPI package `tokenizers`, which is older than its classes
/// of characters, may change the code point, move it or join it with another. code_point: below
/// 0x110000.
inline bool takes_part_in_normalization(char32_t code_point) {
  const uint8_t kind = normalization_class_tables::class_of(code_point);
  return kind == 1 || kind == 2;
}

/// Whether its StripAccents removes the code point, which must be below 0x110000.
inline bool is_stripped_accent(char32_t code_point) {
  return normalization_class_tables::class_of(code_point) >= 2;
}

}  // namespace meg::tokenizer
