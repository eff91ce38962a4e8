// The scan of 64 bytes at once. Included by one source file an instruction set, each compiled with
// that set's flags; everything here is static so that no such code is shared with other files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/bpe/internal/fast/start_bits.h"
#include "libmeg/tokenizer/sentencepiece/internal/fast/word_split.h"

namespace meg::tokenizer::sentencepiece::fast {
namespace {

/// Bit i stands for byte i of 64.
struct SplitBlock {
  uint64_t spaces;
  uint64_t others;  // ASCII characters that are neither letters nor spaces
};

template <class Block>
inline SplitBlock split_block(const unsigned char* bytes) {
  const Block block(bytes);
  const uint64_t spaces = block.in_range(' ', ' ');
  return {spaces, ~(block.letters() | block.non_ascii() | spaces)};
}

/// The bytes among `asked` that begin a word: beside spaces, or where `others` begin or end and no
/// piece has both sides. before: the 64 bytes before these.
inline uint64_t cuts_of(const WordSplit& split, const SplitBlock& block, const SplitBlock& before,
                        const unsigned char* bytes, uint64_t asked) {
  const uint64_t after_space = block.spaces << 1 | before.spaces >> 63;
  const uint64_t after_other = block.others << 1 | before.others >> 63;
  uint64_t cuts = 0;
  if (split.cuts_before_spaces()) cuts |= block.spaces & ~after_space;
  if (split.cuts_between_spaces()) cuts |= block.spaces & after_space;
  if (split.cuts_after_spaces()) cuts |= ~block.spaces & after_space;
  uint64_t left = (block.others | after_other) & ~(block.spaces | after_space) & asked;
  for (; left != 0; left &= left - 1) {
    const int i = __builtin_ctzll(left);
    cuts |= uint64_t{!split.are_joined(bytes[i - 1], bytes[i])} << i;
  }
  return cuts & asked;
}

template <class Block>
inline size_t scan_split(const WordSplit& split, tokenizer::fast::WordScan& scan,
                         uint32_t* starts) {
  const char* const begin = scan.position;
  const auto size = static_cast<size_t>(scan.end - begin);
  const size_t scanned = size < tokenizer::fast::kScanBytes ? size : tokenizer::fast::kScanBytes;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(begin);
  tokenizer::fast::StartBits words;
  SplitBlock before{0, 0};
  for (size_t at = 0; at < scanned; at += 64) {
    const SplitBlock block = split_block<Block>(bytes + at);
    uint64_t asked = scanned - at < 64 ? (uint64_t{1} << (scanned - at)) - 1 : ~uint64_t{0};
    // What comes before the first byte is not looked at.
    if (at == 0) asked &= ~uint64_t{1};
    words.add(at, cuts_of(split, block, before, bytes + at, asked));
    before = block;
  }
  if (split.joints().cuts()) {
    tokenizer::fast::ScanBits borders;
    const size_t count = tokenizer::fast::find_borders<Block>(begin, scanned - 1, borders);
    split.joints().cut(begin, {borders.data(), count}, words.bits());
  }
  scan.position = begin + scanned;
  return tokenizer::fast::list_starts<Block>(begin, scan, words, starts);
}

}  // namespace
}  // namespace meg::tokenizer::sentencepiece::fast
