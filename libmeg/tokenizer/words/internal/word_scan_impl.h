// The scan shared by all instruction sets. Included by one source file a set, each compiled with
// that set's flags; everything here is static so that no such code is shared with other files.
#pragma once

#include <array>
#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/character_class.h"
#include "libmeg/tokenizer/unicode/internal/unicode_class.h"
#include "libmeg/tokenizer/words/internal/block_characters.h"
#include "libmeg/tokenizer/words/internal/contraction.h"
#include "libmeg/tokenizer/words/internal/start_bits.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer::fast {
namespace {

/// Bit i of a mask stands for byte i of the block. Each byte below 0x80 is in exactly one class.
struct BlockClasses {
  uint64_t letter;
  uint64_t number;
  uint64_t space;
  uint64_t other;
  uint64_t non_ascii;
};

/// The classes of GPT-2's pattern as Hugging Face's tokenizers see them.
inline UnicodeClass tokenizers_class(char32_t code_point) {
  constexpr UnicodeClass kClasses[kCharacterClasses] = {
      UnicodeClass::kOther, UnicodeClass::kOther,  UnicodeClass::kNumber, UnicodeClass::kSpace,
      UnicodeClass::kOther, UnicodeClass::kLetter, UnicodeClass::kLetter, UnicodeClass::kLetter};
  return kClasses[static_cast<size_t>(character_class(code_point))];
}

inline constexpr std::array kLetters = {
    Letters<UnicodeClass>{class_bit(UnicodeClass::kLetter), UnicodeClass::kLetter}};

/// unicode_class or tokenizers_class.
using ClassOf = UnicodeClass (*)(char32_t code_point);

template <class Block>
inline BlockClasses ascii_classes(const Block& block) {
  BlockClasses classes;
  classes.letter = block.letters();
  classes.number = block.in_range('0', '9');
  classes.space = block.in_range(' ', ' ') | block.in_range('\t', '\r');
  classes.non_ascii = block.non_ascii();
  classes.other = ~(classes.letter | classes.number | classes.space | classes.non_ascii);
  return classes;
}

/// Whether no word may start after a white-space run that ends at p: p is the end of the text or
/// whitespace.
template <ClassOf kClassOf>
inline bool space_or_end(const unsigned char* p, const unsigned char* end) {
  if (p == end) return true;
  if (*p < 0x80) return *p == ' ' || (*p >= '\t' && *p <= '\r');
  return decode<kClassOf>(p, static_cast<size_t>(end - p)).kind == UnicodeClass::kSpace;
}

inline uint32_t class_of_bit(const BlockClasses& classes, const unsigned char* block,
                             uint32_t bit) {
  const auto has = [bit](uint64_t mask) { return static_cast<uint32_t>((mask >> bit) & 1); };
  return has(classes.letter) * WordScan::kLetter + has(classes.number) * WordScan::kNumber +
         has(classes.space) * WordScan::kSpace + has(classes.other) * WordScan::kOther +
         (block[bit] == ' ' ? WordScan::kBlank : 0);
}

/// The starts with those of the contractions that begin at `apostrophes` put right, and of those
/// that reach into this block or, through `scan`, into the next.
inline uint64_t with_contractions(uint64_t starts, uint64_t apostrophes, const unsigned char* block,
                                  uint32_t size, const unsigned char* end, WordScan& scan) {
  starts = (starts & ~scan.suppressed_starts) | scan.forced_starts;
  scan.forced_starts = scan.suppressed_starts = 0;
  for (; apostrophes != 0; apostrophes &= apostrophes - 1) {
    const auto i = static_cast<uint32_t>(__builtin_ctzll(apostrophes));
    const uint32_t length = contraction_length(block + i, end);
    if (length == 0) continue;
    const uint32_t letter = i + 1;
    const uint32_t behind = i + length;
    if (letter < size) {
      starts &= ~(uint64_t{1} << letter);
    } else {
      scan.suppressed_starts |= uint64_t{1} << (letter - size);
    }
    if (behind < size) {
      starts |= uint64_t{1} << behind;
    } else {
      scan.forced_starts |= uint64_t{1} << (behind - size);
    }
  }
  return starts;
}

/// One pass over the next kScanBytes of the text.
///
/// With the regular expression
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// a word starts at
///   - a letter, number or other character whose predecessor is of another class and is not U+0020
///     (a space in front belongs to the word);
///   - the first character of a white-space run, and also its last one where more text follows (the
///     look-ahead leaves that one over: a space joins the next word, other whitespace stands
///     alone);
///   - the apostrophe of a contraction where it would start a word anyway, and the character after
///     the contraction; its letters do not start one.
template <ClassOf kClassOf, class Block>
inline size_t scan_words(WordScan& scan, uint32_t* starts) {
  const auto* const first = reinterpret_cast<const unsigned char*>(scan.position);
  const auto* const end = reinterpret_cast<const unsigned char*>(scan.end);
  const unsigned char* block = first;
  StartBits found;
  while (block < end && block - first <= static_cast<ptrdiff_t>(kScanBytes - 64)) {
    const auto room = static_cast<size_t>(end - block);
    uint32_t size = room < 64 ? static_cast<uint32_t>(room) : 64;
    const Block bytes(block);
    BlockClasses classes = ascii_classes(bytes);
    const uint64_t blank = bytes.in_range(' ', ' ');
    const uint64_t apostrophe = bytes.in_range('\'', '\'');
    const uint64_t inside = ~uint64_t{0} >> (64 - size);
    classes.non_ascii &= inside;
    if (classes.non_ascii != 0) {
      size = classify_non_ascii<kClassOf, kLetters>(
          bytes, block, size, room, classes.non_ascii,
          [&](UnicodeClass kind, uint64_t /*leads*/, uint64_t bits) {
            classes.letter |= kind == UnicodeClass::kLetter ? bits : 0;
            classes.number |= kind == UnicodeClass::kNumber ? bits : 0;
            classes.space |= kind == UnicodeClass::kSpace ? bits : 0;
            classes.other |= kind == UnicodeClass::kOther ? bits : 0;
          });
    }
    const uint64_t whole = ~uint64_t{0} >> (64 - size);

    const uint64_t previous = scan.previous;
    const uint64_t after_letter = (classes.letter << 1) | (previous & 1);
    const uint64_t after_number = (classes.number << 1) | ((previous >> 1) & 1);
    const uint64_t after_space = (classes.space << 1) | ((previous >> 2) & 1);
    const uint64_t after_other = (classes.other << 1) | ((previous >> 3) & 1);
    const uint64_t after_blank = (blank << 1) | ((previous >> 4) & 1);

    const uint64_t word = ((classes.letter & ~after_letter) | (classes.number & ~after_number) |
                           (classes.other & ~after_other)) &
                          ~after_blank;
    const uint64_t run = classes.space & ~after_space;
    uint64_t before_space = classes.space >> 1;
    if (((classes.space >> (size - 1)) & 1) != 0 && space_or_end<kClassOf>(block + size, end)) {
      before_space |= uint64_t{1} << (size - 1);
    } else {
      before_space &= whole >> 1;
    }
    uint64_t run_last = classes.space & ~before_space & whole;
    if ((run_last & classes.non_ascii) != 0) run_last = move_to_lead(run_last, block);

    const uint64_t plain = word | run | run_last;
    found.add(static_cast<size_t>(block - first),
              with_contractions(plain, apostrophe & word & whole, block, size, end, scan) & whole);
    scan.previous = class_of_bit(classes, block, size - 1);
    block += size;
  }
  const char* const begin = scan.position;
  scan.position = reinterpret_cast<const char*>(block);
  return list_starts<Block>(begin, scan, found, starts);
}

}  // namespace
}  // namespace meg::tokenizer::fast
