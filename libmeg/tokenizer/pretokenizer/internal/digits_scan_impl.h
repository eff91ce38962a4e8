// The words of Digits with individual_digits in front of GPT-2's pattern, as in StarCoder's and
// SmolLM's files, with the blocks and helpers of pattern_scan_impl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/internal/step_class.h"
#include "libmeg/tokenizer/pretokenizer/internal/pattern_scan_impl.h"

namespace meg::tokenizer {
namespace {

/// Each number is a word, and between numbers each text has the words of
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// The numbers of Digits are of a newer Unicode version than \p{N}: those that this lacks are
/// control characters for it.
struct DigitsWords {
  static constexpr PatternForm kForm = {.max_digits = 1};

  /// As block_starts().
  template <class Block>
  static uint64_t starts(const Byte* p, const Byte* end) {
    const PatternBlock block = classify<kForm, Block>(p, end);
    if (block.size == 0 || (block.control & Block(p).non_ascii()) != 0) return 0;
    const uint64_t space = block.space;
    uint64_t last = space & ~((space | block.number) >> 1);
    if ((last & block.continuation) != 0) last = fast::move_to_lead(last, p);
    const uint64_t behind_blank = block.blank << 1;
    const uint64_t other_starts = block.other & ~(block.other << 1) & ~behind_blank;
    uint64_t starts = 1 | (block.word & ~(block.word << 1) & ~behind_blank) | other_starts |
                      number_starts<kForm>(block) | (space & ~(space << 1)) | last;
    starts &= certain_starts(block, space);
    for (uint64_t left = block.apostrophe & other_starts; left != 0; left &= left - 1) {
      const uint32_t i = lowest(left);
      const auto length = static_cast<uint32_t>(contraction_end(p + i, end) - (p + i));
      if (length == 0) continue;
      starts &= ~(uint64_t{2} << i);
      if (i + length < block.size) starts |= uint64_t{1} << (i + length);
    }
    return starts;
  }

  /// The end of the contraction at p, of lower-case letters; p if there is none.
  static const Byte* contraction_end(const Byte* p, const Byte* end) {
    const Byte* const behind = meg::tokenizer::contraction_end(p, end);
    for (const Byte* letter = p + 1; letter < behind; ++letter) {
      if (*letter < 'a' || *letter > 'z') return p;
    }
    return behind;
  }

  /// Whether a number of Digits stands at p.
  static bool is_digit(const Byte* p, const Character& c) {
    if (c.kind != CharacterClass::kControl || *p < 0xf0) return c.kind == CharacterClass::kNumber;
    const char32_t code_point =
        (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    return is_of(StepClass::kNumeric, code_point);
  }

  /// As first_word_end().
  static const Byte* first_end(const Byte* p, const Byte* end) {
    const Character c = character_at(p, end);
    if (is_digit(p, c)) return p + c.length;
    if (const Byte* const behind = contraction_end(p, end); behind != p) return behind;
    const Byte* const first = *p == ' ' && p + 1 < end ? p + 1 : p;
    const Character kind = character_at(first, end);
    const bool is_text = kind.kind != CharacterClass::kSpace && !is_digit(first, kind);
    if (is_text) {
      const Byte* at = first;
      while (at < end) {
        const Character next = character_at(at, end);
        const bool is_like =
            is_letter(kind.kind) ? is_letter(next.kind) : is_other<kForm>(next.kind);
        if (!is_like || is_digit(at, next)) break;
        at += next.length;
      }
      return at;
    }
    return spaces_end(p, end);
  }

  /// The end of the whitespace that is one word, at p.
  static const Byte* spaces_end(const Byte* p, const Byte* end) {
    const Byte* last = p;
    const Byte* at = p;
    while (at < end) {
      const Character c = character_at(at, end);
      if (c.kind != CharacterClass::kSpace) {
        return last == p || is_digit(at, c) ? at : last;
      }
      last = at;
      at += c.length;
    }
    return end;
  }
};

}  // namespace
}  // namespace meg::tokenizer
