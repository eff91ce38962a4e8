// The scan of 64 bytes at once. Included by one source file an instruction set, each compiled with
// that set's flags; everything here is static so that no such code is shared with other files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/words/internal/start_bits.h"
#include "libmeg/tokenizer/words/internal/word_split.h"

namespace meg::tokenizer::fast {
namespace {

/// Bit i stands for byte i of 64.
struct SplitBlock {
  uint64_t marks;   // first bytes of space marks
  uint64_t others;  // ASCII characters that are neither letters nor space marks
};

template <SpaceMark kMark>
inline constexpr int kMarkBytes = kMark == SpaceMark::kSpace ? 1 : 3;

/// inside: the bytes that belong to the text.
template <SpaceMark kMark, class Block>
inline SplitBlock split_block(const unsigned char* bytes, uint64_t inside) {
  const Block block(bytes);
  const uint64_t others = ~(block.letters() | block.non_ascii());
  if constexpr (kMark == SpaceMark::kSpace) {
    const uint64_t spaces = block.in_range(' ', ' ');
    return {spaces, others & ~spaces};
  }
  uint64_t marks = 0;
  for (uint64_t left = block.equal('\xE2') & inside; left != 0; left &= left - 1) {
    const int i = __builtin_ctzll(left);
    marks |= uint64_t{bytes[i + 1] == 0x96 && bytes[i + 2] == 0x81} << i;
  }
  return {marks, others};
}

/// The bytes among `asked` that begin a word: beside space marks, or where `others` begin or end
/// and no piece has both sides. before: the 64 bytes before these.
template <SpaceMark kMark>
inline uint64_t cuts_of(const WordSplit& split, const SplitBlock& block, const SplitBlock& before,
                        const unsigned char* bytes, uint64_t asked) {
  const uint64_t after_mark =
      block.marks << kMarkBytes<kMark> | before.marks >> (64 - kMarkBytes<kMark>);
  const uint64_t after_other = block.others << 1 | before.others >> 63;
  uint64_t cuts = 0;
  if (split.cuts_before_marks()) cuts |= block.marks & ~after_mark;
  if (split.cuts_between_marks()) cuts |= block.marks & after_mark;
  if (split.cuts_after_marks()) cuts |= ~block.marks & after_mark;
  uint64_t left = (block.others | after_other) & ~(block.marks | after_mark) & asked;
  for (; left != 0; left &= left - 1) {
    const int i = __builtin_ctzll(left);
    cuts |= uint64_t{!split.are_joined(bytes[i - 1], bytes[i])} << i;
  }
  return cuts & asked;
}

// scan.previous between two calls: whether the last byte is one of `others`, and, from bit 1 on,
// which of the last ones begin space marks.

constexpr uint32_t kInsideText = uint32_t{1} << 31;

template <SpaceMark kMark>
inline SplitBlock left_over(const WordScan& scan) {
  const uint64_t marks = (scan.previous & ~kInsideText) >> 1;
  return {marks << (64 - kMarkBytes<kMark>), uint64_t{scan.previous} << 63};
}

template <SpaceMark kMark>
inline void keep(const SplitBlock& last, WordScan& scan) {
  const uint64_t marks = last.marks >> (64 - kMarkBytes<kMark>);
  scan.previous = kInsideText | static_cast<uint32_t>(marks << 1 | last.others >> 63);
}

template <SpaceMark kMark, class Block>
inline size_t scan_split_at(WordScan& scan, uint32_t* starts) {
  const WordSplit& split = *scan.split;
  const char* const begin = scan.position;
  const auto size = static_cast<size_t>(scan.end - begin);
  const size_t scanned = size < kScanBytes ? size : kScanBytes;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(begin);
  StartBits words;
  SplitBlock before = left_over<kMark>(scan);
  for (size_t at = 0; at < scanned; at += 64) {
    const uint64_t inside = scanned - at < 64 ? (uint64_t{1} << (scanned - at)) - 1 : ~uint64_t{0};
    const SplitBlock block = split_block<kMark, Block>(bytes + at, inside);
    const bool is_start = at == 0 && scan.previous == 0;  // of the text
    const uint64_t asked = is_start ? inside & ~uint64_t{1} : inside;
    words.add(at, cuts_of<kMark>(split, block, before, bytes + at, asked));
    before = block;
  }
  if (split.boundaries().cuts()) {
    ScanBits borders;
    const size_t count = find_borders<Block>(begin, scanned - 1, borders);
    split.boundaries().cut(begin, {borders.data(), count}, words.bits());
  }
  keep<kMark>(before, scan);
  scan.position = begin + scanned;
  return list_starts<Block>(begin, scan, words, starts);
}

/// Finds the words of scan.split, without cuts of MergeBoundaries at the first bytes of a call.
template <class Block>
inline size_t scan_split(WordScan& scan, uint32_t* starts) {
  return scan.split->mark() == SpaceMark::kSpace
             ? scan_split_at<SpaceMark::kSpace, Block>(scan, starts)
             : scan_split_at<SpaceMark::kSymbol, Block>(scan, starts);
}

}  // namespace
}  // namespace meg::tokenizer::fast
