// The words of DeepSeek V3's pre-tokenizer, with the blocks and helpers of pattern_scan_impl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/words/internal/pattern_scan_impl.h"

namespace meg::tokenizer {
namespace {

/// What three expressions isolate, one within the other:
///
///   \p{N}{1,3}
///   [一-龥぀-ゟ゠-ヿ]+
///   [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*
///     |\s*[\r\n]+|\s+(?!\S)|\s+
///
/// So the text ends for the third one before numbers and before characters of the second one, which
/// are called ideographs here, and starts anew after them. Control characters that it does not take
/// are words as well, together with their neighbours.
struct DeepSeekWords {
  static constexpr PatternForm kForm = {.marks_in_words = true};

  static bool is_ideograph(const Byte* p, const Byte* end) {
    if (*p < 0xe3 || *p > 0xe9 || end - p < 3) return false;
    const uint32_t c = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    return (c >= 0x3040 && c <= 0x30ff) || (c >= 0x4e00 && c <= 0x9fa5);
  }

  /// All bytes of the ideographs of a block.
  template <class Block>
  static uint64_t ideographs(const Block& bytes, const Byte* p, const Byte* end) {
    uint64_t leads = 0;
    if constexpr (requires { bytes.ideographs(); }) {
      const auto range = [&bytes](int low, int high) {
        return bytes.in_range(static_cast<char>(low), static_cast<char>(high));
      };
      leads = (range(0xe3, 0xe3) & range(0x81, 0x83) >> 1) |
              (range(0xe4, 0xe4) & range(0xb8, 0xbf) >> 1) | range(0xe5, 0xe8) |
              (range(0xe9, 0xe9) &
               (range(0x80, 0xbd) >> 1 | (range(0xbe, 0xbe) >> 1 & range(0x80, 0xa5) >> 2)));
    } else {
      for (uint64_t left = bytes.wide_leads(); left != 0; left &= left - 1) {
        const uint32_t i = lowest(left);
        if (p + i < end && is_ideograph(p + i, end)) leads |= uint64_t{1} << i;
      }
    }
    return leads | leads << 1 | leads << 2;
  }

  /// As block_starts().
  template <class Block>
  static uint64_t starts(const Byte* p, const Byte* end) {
    const PatternBlock block = classify<kForm, Block>(p, end);
    if (block.size == 0 || block.wide_numbers) return 0;
    const Block bytes(p);
    const uint64_t inside = ~uint64_t{0} >> (64 - block.size);
    const uint64_t non_ascii = bytes.non_ascii();
    const uint64_t ideograph = non_ascii == 0 ? 0 : ideographs(bytes, p, end) & inside;
    const uint64_t control = block.control;
    if ((control & ideograph) != 0) return 0;
    const uint64_t word = block.word & ~ideograph;
    const uint64_t symbol = block.other & ~control & ~ideograph;
    const uint64_t eaten = eaten_newlines(block, symbol);
    const uint64_t space = block.space & ~eaten;

    const uint64_t symbol_starts = symbol & ~(symbol << 1) & ~(block.blank << 1);
    // A word takes one character in front: whitespace but line ends, or a control character.
    const uint64_t prefixed = ((block.space & ~block.newline) | control) << 1;
    uint64_t prefix = control & (word >> 1);
    if ((prefix & block.continuation) != 0) prefix = fast::move_to_lead(prefix, p);
    uint64_t starts = 1 | symbol_starts | (word & ~(word << 1) & ~prefixed) |
                      (control & ~(control << 1)) | prefix | number_starts<kForm>(block) |
                      space_starts(block, space, block.number | ideograph, p);
    const uint64_t ideograph_words = block.word & ideograph;
    const uint64_t ideograph_symbols = ideograph & ~ideograph_words;
    starts |= ideograph_words & ~(ideograph_words << 1);
    starts |= ideograph_symbols & ~(ideograph_symbols << 1);

    // A single ASCII symbol takes the ASCII letters after it, and no other ones.
    const uint64_t letters = word & ~non_ascii;
    const uint64_t joined = (symbol_starts & ~non_ascii & ~(symbol >> 1) & letters >> 1) << 1;
    starts &= ~joined;
    starts |= (joined + letters) & ~letters & word;
    return starts & certain_starts(block, space);
  }

  /// A character with what tells the expressions apart.
  struct Kind {
    CharacterClass kind;
    uint32_t length;
    bool ideograph;
  };

  static Kind kind_at(const Byte* p, const Byte* end) {
    const Character c = character_at(p, end);
    return {c.kind, c.length, is_ideograph(p, end)};
  }

  /// Where the characters at p end that `wanted` holds for and that are ideographs, or none.
  template <class Wanted>
  static const Byte* end_of(const Byte* p, const Byte* end, bool ideograph, const Wanted& wanted) {
    while (p < end) {
      const Kind c = kind_at(p, end);
      if (c.ideograph != ideograph || !wanted(c.kind)) break;
      p += c.length;
    }
    return p;
  }

  static const Byte* symbols_end(const Byte* p, const Byte* end, bool ideograph) {
    p = end_of(p, end, ideograph,
               [](CharacterClass kind) { return kind == CharacterClass::kOther; });
    while (!ideograph && p < end && is_newline(*p)) ++p;
    return p;
  }

  /// As first_word_end().
  static const Byte* first_end(const Byte* p, const Byte* end) {
    const Kind c = kind_at(p, end);
    const Byte* const behind = p + c.length;
    if (c.kind == CharacterClass::kNumber) return numbers_end(p, end, kForm.max_digits);
    if (in_word<kForm>(c.kind)) return end_of(p, end, c.ideograph, in_word<kForm>);
    if (c.kind == CharacterClass::kOther) {
      const Byte* letters = behind;
      while (*p < 0x80 && letters < end && *letters < 0x80 && is_letter(kAscii[*letters]))
        ++letters;
      return letters > behind ? letters : symbols_end(p, end, c.ideograph);
    }
    const Byte* const word_end = end_of(behind, end, c.ideograph, in_word<kForm>);
    if (word_end > behind && !is_newline(*p)) return word_end;
    if (c.kind == CharacterClass::kControl) return controls_end(behind, end, c.ideograph);
    if (*p == ' ' && behind < end && !is_newline(*behind)) {
      if (const Byte* const found = symbols_end(behind, end, false); found > behind) return found;
    }
    return whitespace_end<kForm>(p, end, [end](const Byte* at) {
      return at == end || character_at(at, end).kind == CharacterClass::kNumber ||
             is_ideograph(at, end);
    });
  }

  /// The end of control characters at p; the last one before a word belongs to that.
  static const Byte* controls_end(const Byte* p, const Byte* end, bool ideograph) {
    while (p < end) {
      const Kind c = kind_at(p, end);
      if (c.ideograph != ideograph || c.kind != CharacterClass::kControl) break;
      if (end_of(p + c.length, end, ideograph, in_word<kForm>) > p + c.length) break;
      p += c.length;
    }
    return p;
  }
};

}  // namespace
}  // namespace meg::tokenizer
