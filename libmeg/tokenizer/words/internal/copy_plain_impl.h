// The same for all instruction sets. Included by one source file a set, each compiled with that
// set's flags; everything here is static so that no such code is shared with other files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "libmeg/tokenizer/words/internal/copy_plain.h"

namespace meg::tokenizer::fast {
namespace {

constexpr size_t kBlockBytes = 64;

/// The lowest `count` bits.
inline uint64_t low_bits(size_t count) {
  return count < kBlockBytes ? (uint64_t{1} << count) - 1 : ~uint64_t{0};
}

inline size_t lowest_bit(uint64_t bits) { return static_cast<size_t>(__builtin_ctzll(bits)); }

/// The bytes that belong to characters for which size_alone() is not 0, of kinds that `block` finds
/// all at once.
template <class Block>
inline uint64_t alone_bits(const PlainCharacters& plain, const Block& block) {
  uint64_t alone = plain.has_graphic() ? block.in_range(' ', '~') : 0;
  if constexpr (requires { block.starts_in(plain.two_byte_set()); }) {
    const uint64_t two = block.starts_in(plain.two_byte_set());
    const uint64_t three = block.starts_in(plain.three_byte_set());
    alone |= two | two << 1 | three | three << 1 | three << 2;
  } else if constexpr (requires { block.ideographs(); }) {
    const uint64_t leads = plain.has_ideographs() ? block.ideographs() : 0;
    alone |= leads | leads << 1 | leads << 2;
  }
  return alone;
}

/// How many of the `room` bytes at `at` belong to whole characters that normalizing leaves as they
/// are or makes a space of; perhaps fewer. alone: those of which the block says so.
inline size_t plain_bytes(const PlainCharacters& plain, const char* at, const char* end,
                          uint64_t alone) {
  const auto room = static_cast<size_t>(end - at);
  size_t size = room < kBlockBytes ? room : kBlockBytes;
  for (uint64_t others = ~alone; others != 0;) {
    const size_t i = lowest_bit(others);
    if (i >= size) break;
    const size_t bytes = plain.size_alone(at + i, end);
    if (bytes == 0 || i + bytes > size) {
      size = i;
      break;
    }
    others &= ~(low_bits(bytes) << i);
  }
  if (size == room || size == 0) return size;
  // What follows may change the last character.
  do {
    --size;
  } while (size > 0 && (static_cast<unsigned char>(at[size]) & 0xC0) == 0x80);
  return size;
}

/// Copies those of the 64 bytes at `at` that `kept` has, a space for those that `spaces` has.
/// Returns the end of the copy; up to 64 bytes from there on are written as well.
template <class Block>
inline char* copy_kept(const Block& block, const char* at, uint64_t spaces, uint64_t kept,
                       char* out) {
  if constexpr (requires { block.store_kept(spaces, kept, out); }) {
    return block.store_kept(spaces, kept, out);
  }
  while (kept != 0) {
    const size_t first = lowest_bit(kept);
    const uint64_t others = ~(kept >> first);
    const size_t size = others == 0 ? kBlockBytes : lowest_bit(others);
    std::memcpy(out, at + first, kBlockBytes);
    const uint64_t run = low_bits(size) << first;
    for (uint64_t left = spaces & run; left != 0; left &= left - 1) {
      out[lowest_bit(left) - first] = ' ';
    }
    out += size;
    kept &= ~run;
  }
  return out;
}

template <class Block>
inline void copy_plain_by(const PlainCharacters& plain, const char* end, bool collapses,
                          NormalizingPlace& place) {
  auto [at, out, after_space] = place;
  while (at < end) {
    const Block block(reinterpret_cast<const unsigned char*>(at));
    const uint64_t controls =
        plain.has_space_controls() ? block.equal('\t') | block.equal('\n') | block.equal('\r') : 0;
    size_t size = plain_bytes(plain, at, end, alone_bits(plain, block) | controls);
    if (size > 0) {
      const uint64_t spaces = block.equal(' ') | controls;
      const uint64_t extra = collapses ? spaces & (spaces << 1 | uint64_t{after_space}) : 0;
      out = copy_kept(block, at, controls, low_bits(size) & ~extra, out);
      after_space = collapses && (spaces >> (size - 1) & 1) != 0;
    } else {
      size = plain.plain_size(at, end);
      if (size == 0) break;
      const bool space = *at == ' ';
      if (!space || !after_space) {
        std::memcpy(out, at, 4);
        out += size;
      }
      after_space = collapses && space;
    }
    at += size;
  }
  place = {at, out, after_space};
}

}  // namespace
}  // namespace meg::tokenizer::fast
