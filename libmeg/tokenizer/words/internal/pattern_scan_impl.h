// The scan of 64 bytes at once. Included by one source file an instruction set, each compiled with
// that set's flags; everything here is static so that no such code is shared with other files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "libmeg/tokenizer/words/internal/pattern_words.h"
#include "libmeg/tokenizer/words/internal/start_bits.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer {
namespace {

/// The characters of a block that begins at the start of a word. All bytes of a character have its
/// bits; no mask has bits past `size`.
struct PatternBlock {
  uint32_t size;  // bytes, of whole characters
  uint64_t word;  // letters, and with cased words marks, which these take in
  uint64_t number;
  uint64_t space;
  uint64_t newline;  // \r and \n
  uint64_t blank;    // U+0020
  uint64_t other;    // none of word, number and space
  uint64_t control;  // of these, what is neither punctuation nor a symbol nor a mark
  uint64_t apostrophe;
  uint64_t slash;
  uint64_t continuation;  // bytes of a character after its first
  uint64_t upper;         // with cased words only, as the next three
  uint64_t lower;
  uint64_t uncased;  // letters and marks that are both
  uint64_t mark;
  bool wide_numbers;  // outside ASCII
};

constexpr uint64_t below(uint32_t bit) { return (uint64_t{1} << bit) - 1; }

inline uint32_t lowest(uint64_t bits) { return static_cast<uint32_t>(__builtin_ctzll(bits)); }

inline uint32_t highest(uint64_t bits) { return 63 - static_cast<uint32_t>(__builtin_clzll(bits)); }

constexpr fast::Letters<CharacterClass> letters_as(CharacterClass kind) {
  return {fast::class_bit(kind), kind};
}

/// Without cased words all letters are alike, and marks that belong to words.
template <PatternForm kForm>
inline constexpr std::array kLetters = {fast::Letters<CharacterClass>{
    fast::class_bit(CharacterClass::kUpper) | fast::class_bit(CharacterClass::kLower) |
        fast::class_bit(CharacterClass::kLetter) |
        (kForm.marks_in_words ? fast::class_bit(CharacterClass::kMark) : 0),
    CharacterClass::kLetter}};
template <PatternForm kForm>
requires(kForm.cased_words) inline constexpr std::array kLetters<kForm> = {
    letters_as(CharacterClass::kUpper), letters_as(CharacterClass::kLower),
    letters_as(CharacterClass::kLetter)};

/// class_of: as character_at()'s.
template <PatternForm kForm, class Block, auto class_of = character_class>
inline PatternBlock classify(const Byte* p, const Byte* end) {
  const Block bytes(p);
  const auto room = static_cast<size_t>(end - p);
  const uint32_t size = room < 64 ? static_cast<uint32_t>(room) : 64;
  const uint64_t digits = bytes.in_range('0', '9');
  const uint64_t non_ascii = bytes.non_ascii() & (~uint64_t{0} >> (64 - size));
  std::array<uint64_t, kCharacterClasses> kinds{};
  PatternBlock block{};
  block.size = size;
  if (non_ascii != 0) {
    block.size = fast::classify_non_ascii<class_of, kLetters<kForm>>(
        bytes, p, size, room, non_ascii, [&](CharacterClass kind, uint64_t leads, uint64_t bits) {
          kinds[static_cast<size_t>(kind)] |= bits;
          block.continuation |= bits & ~leads;
        });
  }
  const auto of = [&](CharacterClass kind) { return kinds[static_cast<size_t>(kind)]; };
  const uint64_t inside = block.size == 0 ? 0 : ~uint64_t{0} >> (64 - block.size);
  if constexpr (kForm.cased_words) {
    block.upper = (bytes.in_range('A', 'Z') | of(CharacterClass::kUpper)) & inside;
    block.lower = (bytes.in_range('a', 'z') | of(CharacterClass::kLower)) & inside;
    block.mark = of(CharacterClass::kMark);
    block.uncased = of(CharacterClass::kLetter) | block.mark;
    block.word = block.upper | block.lower | block.uncased;
    block.slash = bytes.in_range('/', '/') & inside;
  } else {
    block.word = (bytes.letters() | of(CharacterClass::kUpper) | of(CharacterClass::kLower) |
                  of(CharacterClass::kLetter)) &
                 inside;
    if constexpr (kForm.marks_in_words) block.word |= of(CharacterClass::kMark);
  }
  block.wide_numbers = of(CharacterClass::kNumber) != 0;
  block.number = (digits | of(CharacterClass::kNumber)) & inside;
  block.blank = bytes.in_range(' ', ' ') & inside;
  block.space = (bytes.in_range('\t', '\r') | of(CharacterClass::kSpace)) & inside;
  block.space |= block.blank;
  if constexpr (kForm.newline_words)
    block.newline = (bytes.in_range('\n', '\n') | bytes.in_range('\r', '\r')) & inside;
  block.apostrophe = bytes.in_range('\'', '\'') & inside;
  block.other = inside & ~(block.word | block.number | block.space);
  block.control = ((block.other & ~bytes.non_ascii() & ~bytes.in_range('!', '~')) |
                   of(CharacterClass::kControl));
  return block;
}

/// The first bytes after the characters that begin at `leads`.
inline uint64_t behind(uint64_t leads, uint64_t continuation) {
  // A lead's bit, one further, carries through the character's other bytes.
  return ((leads << 1) + continuation) & ~continuation;
}

/// Where numbers start: each run, and its parts of kForm.max_digits characters.
template <PatternForm kForm>
inline uint64_t number_starts(const PatternBlock& block) {
  if constexpr (kForm.max_digits == 1) return block.number & ~block.continuation;
  uint64_t starts = block.number & ~(block.number << 1);
  if constexpr (kForm.max_digits == 3) {
    const uint64_t after_three = block.number & (block.number << 1) & (block.number << 2);
    for (uint64_t next = starts; next != 0; starts |= next) next = (next << 3) & after_three;
  }
  return starts;
}

/// Where whitespace starts that `\s*[\r\n]+|\s+(?!\S)|\s+` finds. Right but for the run that
/// reaches the end of the block, of which only the first start is.
/// space: without the line ends that belong to other characters in front of them. ends: where the
/// text counts as ended.
inline uint64_t space_starts(const PatternBlock& block, uint64_t space, uint64_t ends,
                             const Byte* p) {
  const uint64_t newline = block.newline & space;
  const uint64_t tail = space & ~newline;
  // The text after a run's last line end starts a new word.
  uint64_t after_newline = tail & (newline << 1);
  const uint64_t ends_at_newline = (tail + after_newline) & ~tail & newline;
  if (ends_at_newline != 0) {
    for (uint64_t left = after_newline; left != 0; left &= left - 1) {
      const uint64_t start = left & (0 - left);
      if (((tail + start) & ~tail & newline) != 0) after_newline &= ~start;
    }
  }
  // The last character before other text is a word of its own or joins the next word.
  uint64_t last = tail & ~((space | ends) >> 1);
  if ((last & block.continuation) != 0) last = fast::move_to_lead(last, p);
  return (space & ~(space << 1)) | after_newline | last;
}

/// Corrects `starts` for contractions: no word starts inside them, and one starts after them.
/// apostrophes: those that may begin a contraction. length_of: bytes of the one at a byte, or 0.
template <class LengthOf>
inline uint64_t with_contractions(uint64_t starts, uint64_t apostrophes, const PatternBlock& block,
                                  const Byte* p, bool is_suffix, const LengthOf& length_of) {
  uint32_t behind_last = 64;
  for (; apostrophes != 0; apostrophes &= apostrophes - 1) {
    const uint32_t i = lowest(apostrophes);
    // A word takes one suffix.
    if (is_suffix && i == behind_last) continue;
    const uint32_t length = length_of(p + i);
    if (length == 0) continue;
    behind_last = i + length;
    const uint64_t inner = below(length) << i;
    starts &= ~(is_suffix ? inner : inner << 1 & inner);
    if (behind_last < block.size) starts |= uint64_t{1} << behind_last;
  }
  return starts;
}

/// Whether the masks do not suffice: letters with and without case next to each other, marks and
/// line ends that belong to the text before them, numbers of several bytes.
template <PatternForm kForm>
inline bool is_hard(const PatternBlock& block, uint64_t eaten) {
  if (block.size == 0) return true;
  if constexpr (kForm.cased_words) {
    if (block.uncased != 0 && block.upper != 0) return true;
    if ((block.mark & (block.other << 1)) != 0) return true;
  }
  if constexpr (kForm.slashes) {
    if (((eaten << 1) & block.slash) != 0) return true;
  }
  return kForm.max_digits == 3 && block.wide_numbers;
}

/// All but those in whitespace that reaches the end of the block, of which only the first is right.
/// space: as in space_starts().
inline uint64_t certain_starts(const PatternBlock& block, uint64_t space) {
  if (((block.space >> (block.size - 1)) & 1) == 0) return ~uint64_t{0};
  const uint64_t text = ~block.space & (~uint64_t{0} >> (64 - block.size));
  return text == 0 ? 1 : below(highest(text) + 1) | (space & ~(space << 1));
}

/// Line ends after `other` characters, to which they belong.
inline uint64_t eaten_newlines(const PatternBlock& block, uint64_t other) {
  return block.newline & ~(block.newline + (block.newline & (other << 1)));
}

/// The starts of words in the 64 bytes from p, where a word must start, as far as these bytes
/// decide them: at least bit 0. 0 if they do not decide.
template <PatternForm kForm, class Block>
inline uint64_t block_starts(const Byte* p, const Byte* end) {
  const PatternBlock block = classify<kForm, Block>(p, end);
  const uint64_t other = block.other;
  const uint64_t eaten = eaten_newlines(block, other);
  if (is_hard<kForm>(block, eaten)) return 0;
  const uint64_t space = block.space & ~eaten;
  const uint64_t run = other & ~(other << 1);
  const uint64_t other_starts = run & ~(block.blank << 1);

  // A word also takes one character in front: whitespace but line ends, or another one that is
  // alone.
  const uint64_t prefixed =
      ((block.space & ~block.newline) << 1) | behind(other_starts, block.continuation);
  uint64_t starts = 1 | other_starts | (block.word & ~(block.word << 1) & ~prefixed) |
                    number_starts<kForm>(block) | space_starts(block, space, 0, p);
  if constexpr (kForm.cased_words) starts |= block.upper & (block.lower << 1);

  starts &= certain_starts(block, space);
  if constexpr (!kForm.first_contractions && !kForm.suffix_contractions) return starts;
  const uint64_t before = kForm.suffix_contractions ? block.word << 1 : other_starts;
  return with_contractions(
      starts, block.apostrophe & before, block, p, kForm.suffix_contractions,
      [end](const Byte* at) { return static_cast<uint32_t>(contraction_end(at, end) - at); });
}

/// The words of a PatternForm.
template <PatternForm kForm>
struct FormWords {
  template <class Block>
  static uint64_t starts(const Byte* p, const Byte* end) {
    return block_starts<kForm, Block>(p, end);
  }

  static const Byte* first_end(const Byte* p, const Byte* end) {
    return first_word_end<kForm>(p, end);
  }
};

/// Words: FormWords, or what has its functions.
template <class Words, class Block>
size_t scan_pattern(fast::WordScan& scan, uint32_t* starts) {
  const auto* const first = reinterpret_cast<const Byte*>(scan.position);
  const auto* const end = reinterpret_cast<const Byte*>(scan.end);
  // A block finds words up to its own end, and words end anywhere; the next call continues from
  // there.
  constexpr ptrdiff_t kBytes = fast::kScanBytes - 64;
  const Byte* const stop = end - first < kBytes ? end : first + kBytes;
  const Byte* p = first;
  fast::StartBits words;
  while (p < stop) {
    const uint64_t found = Words::template starts<Block>(p, end);
    if (found > 1) {
      // The block's last word is the first of the next block.
      const uint32_t last = highest(found);
      words.add(static_cast<size_t>(p - first), found & below(last));
      p += last;
      continue;
    }
    const Byte* const resume = p + (found == 0 ? 48 : 1);
    do {
      words.add(static_cast<size_t>(p - first), 1);
      p = Words::first_end(p, end);
    } while (p < stop && p < resume);
  }
  const char* const begin = scan.position;
  scan.position = reinterpret_cast<const char*>(p);
  return fast::list_starts<Block>(begin, scan, words, starts);
}

}  // namespace
}  // namespace meg::tokenizer
