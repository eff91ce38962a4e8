#pragma once

#include <cstddef>
#include <cstdint>

namespace meg::tokenizer {

// Tables that the build expands from files of ranges: a code point's block is
// stage1[code_point / kBlockSize], and its value is in that block at code_point % kBlockSize. Equal
// blocks are stored once.
inline constexpr size_t kBlockSize = 128;
inline constexpr size_t kStage1Size = 0x110000 / kBlockSize;

/// code_point: below 0x110000.
template <class Value>
Value two_stage_value(const uint8_t (&stage1)[kStage1Size], const Value (*stage2)[kBlockSize],
                      char32_t code_point) {
  return stage2[stage1[code_point / kBlockSize]][code_point % kBlockSize];
}

}  // namespace meg::tokenizer
