// How scanners collect the starts of words. Everything here is static, as its users are compiled
// for different instruction sets.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/words/internal/merge_boundaries.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer::fast {
namespace {

/// A bit for each byte of one call of a scanner: bit i of number k stands for byte 64 k + i.
using ScanBits = std::array<uint64_t, kScanBytes / 64 + 1>;

/// Where words start. Scanners add their blocks in any order.
class StartBits {
 public:
  /// Bit i of `starts` stands for byte `at` + i.
  void add(size_t at, uint64_t starts) {
    bits_[at / 64] |= starts << (at % 64);
    bits_[at / 64 + 1] |= starts >> 1 >> (63 - at % 64);
  }

  ScanBits& bits() { return bits_; }

 private:
  ScanBits bits_{};
};

/// Stores the positions of the set bits, each plus base; may store up to 64 entries past the last.
template <class Block>
inline uint32_t* store_starts(uint64_t starts, uint32_t base, uint32_t* out) {
  if constexpr (requires { Block::store_places(starts, base, out); }) {
    return Block::store_places(starts, base, out);
  }
  const int count = __builtin_popcountll(starts);
  uint32_t* group = out;
  do {
    for (int i = 0; i < 8; ++i) {
      group[i] = base + static_cast<uint32_t>(__builtin_ctzll(starts | (uint64_t{1} << 63)));
      starts &= starts - 1;
    }
    group += 8;
  } while (group < out + count);
  return out + count;
}

/// Sets the bits of the borders before byte `last` where a character of three bytes from U+3000 on
/// ends and another one begins. Returns how many numbers of `borders` it has set: all up to that of
/// `last`, or none if there is no such border.
template <class Block>
inline size_t find_borders(const char* begin, size_t last, ScanBits& borders) {
  uint64_t all = 0;
  uint64_t before = 0;
  const size_t blocks = last / 64 + 1;
  for (size_t k = 0; k < blocks; ++k) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(begin + 64 * k);
    const uint64_t leads = Block(bytes).wide_leads();
    borders[k] = leads & (leads << 3 | before >> 61);
    all |= borders[k];
    before = leads;
  }
  borders[blocks - 1] &= (uint64_t{1} << (last % 64)) - 1;
  return all == 0 ? 0 : blocks;
}

/// Writes the starts of words and of their parts for a scanner that has read from `begin` to
/// scan.position. Returns their number.
template <class Block>
inline size_t list_starts(const char* begin, const WordScan& scan, StartBits& words,
                          uint32_t* starts) {
  ScanBits& bits = words.bits();
  // A last word may be longer than what bits has room for.
  size_t blocks = std::min(bits.size(), static_cast<size_t>(scan.position - begin) / 64 + 1);
  while (blocks > 0 && bits[blocks - 1] == 0) --blocks;
  if (blocks == 0) return 0;
  if (scan.boundaries != nullptr) {
    const size_t last = 64 * blocks - 1 - static_cast<size_t>(__builtin_clzll(bits[blocks - 1]));
    ScanBits borders;
    const size_t count = find_borders<Block>(begin, last, borders);
    scan.boundaries->cut(begin, {borders.data(), count}, bits);
  }
  uint32_t* out = starts;
  for (size_t k = 0; k < blocks; ++k) {
    if (bits[k] != 0) out = store_starts<Block>(bits[k], static_cast<uint32_t>(64 * k), out);
  }
  return static_cast<size_t>(out - starts);
}

}  // namespace
}  // namespace meg::tokenizer::fast
