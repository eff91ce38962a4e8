// The same for all instruction sets. Included by one source file a set, each compiled with that
// set's flags; everything here is static so that no such code is shared with other files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/sentencepiece/internal/fast/plain_run.h"

namespace meg::tokenizer::sentencepiece::fast {
namespace {

/// The bytes that belong to characters for which size_alone() is not 0, of kinds that `block` finds
/// all at once.
template <class Block>
inline uint64_t alone_bits(const PlainCharacters& plain, const Block& block) {
  uint64_t alone = plain.has_graphic() ? block.in_range(' ', '~') : 0;
  if constexpr (requires { block.ideographs(); }) {
    const uint64_t leads = plain.has_ideographs() ? block.ideographs() : 0;
    alone |= leads | leads << 1 | leads << 2;
  }
  if constexpr (requires { block.starts_in(plain.two_byte_set()); }) {
    const uint64_t leads = block.starts_in(plain.two_byte_set());
    alone |= leads | leads << 1;
  }
  return alone;
}

template <class Block>
inline size_t plain_run_of(const PlainCharacters& plain, const char* at, const char* end,
                           bool collapses, bool after_space) {
  const Block block(reinterpret_cast<const unsigned char*>(at));
  const auto room = static_cast<size_t>(end - at);
  uint64_t others = ~alone_bits(plain, block);  // from bit `size` on they do not count
  size_t size = room < 64 ? room : 64;
  if (collapses) {
    const uint64_t spaces = block.in_range(' ', ' ');
    const uint64_t extra = spaces & (spaces << 1 | uint64_t{after_space});
    if (extra != 0) {
      const auto first = static_cast<size_t>(__builtin_ctzll(extra));
      size = first < size ? first : size;
    }
  }
  while (others != 0) {
    const auto i = static_cast<size_t>(__builtin_ctzll(others));
    if (i >= size) break;
    const size_t bytes = plain.size_alone(at + i, end);
    if (bytes == 0 || i + bytes > size) {
      size = i;
      break;
    }
    others &= ~(((uint64_t{1} << bytes) - 1) << i);
  }
  if (size == room || size == 0) return size;
  // What follows may change the last character.
  do {
    --size;
  } while (size > 0 && (static_cast<unsigned char>(at[size]) & 0xC0) == 0x80);
  return size;
}

}  // namespace
}  // namespace meg::tokenizer::sentencepiece::fast
