// The words of Digits with individual_digits in front of GPT-2's pattern, as in StarCoder's and
// SmolLM's files, with the blocks and helpers of pattern_scan_impl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/step_class.h"
#include "libmeg/tokenizer/words/internal/contraction.h"
#include "libmeg/tokenizer/words/internal/pattern_scan_impl.h"

namespace meg::tokenizer {
namespace {

/// As character_class(), with the numbers of Digits, which are of a newer Unicode version: those
/// that it lacks are control characters for it.
inline CharacterClass class_with_digits(char32_t code_point) {
  const CharacterClass kind = character_class(code_point);
  const bool is_newer = kind == CharacterClass::kControl && is_of(StepClass::kNumeric, code_point);
  return is_newer ? CharacterClass::kNumber : kind;
}

/// Each number is a word, and between numbers each text has the words of
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
struct DigitsWords {
  static constexpr PatternForm kForm = {.max_digits = 1, .newline_words = false};

  /// As block_starts().
  template <class Block>
  static uint64_t starts(const Byte* p, const Byte* end) {
    const PatternBlock block = classify<kForm, Block, class_with_digits>(p, end);
    if (block.size == 0) return 0;
    const uint64_t behind_blank = block.blank << 1;
    const uint64_t other_starts = block.other & ~(block.other << 1) & ~behind_blank;
    const uint64_t starts = 1 | (block.word & ~(block.word << 1) & ~behind_blank) | other_starts |
                            number_starts<kForm>(block) |
                            space_starts(block, block.space, block.number, p);
    return with_contractions(starts & certain_starts(block, block.space),
                             block.apostrophe & other_starts, block, p, false,
                             [end](const Byte* at) { return fast::contraction_length(at, end); });
  }

  /// As first_word_end().
  static const Byte* first_end(const Byte* p, const Byte* end) {
    const auto is_number = [end](const Byte* at) {
      return character_at<class_with_digits>(at, end).kind == CharacterClass::kNumber;
    };
    if (is_number(p)) return p + character_at(p, end).length;
    if (*p == '\'') {
      if (const uint32_t length = fast::contraction_length(p, end); length > 0) return p + length;
    }
    const Byte* const first = *p == ' ' ? p + 1 : p;
    const Byte* text = run_end<class_with_digits>(first, end, in_word<kForm>);
    if (text == first) text = run_end<class_with_digits>(first, end, is_other<kForm>);
    if (text > first) return text;
    return whitespace_end<kForm>(p, end,
                                 [&](const Byte* at) { return at == end || is_number(at); });
  }
};

}  // namespace
}  // namespace meg::tokenizer
