#pragma once

#include <cstddef>
#include <cstdint>

namespace meg::tokenizer::fast {

// Sets of characters that a ByteBlock may look up 64 at once, without looking at their last bits.

/// Characters of two bytes: bit c % 8 of entry c / 8 stands for the code point c.
struct alignas(64) TwoByteSet {
  uint8_t entries[256];
};

/// Groups of 64 characters of three bytes, which have all but the last byte in common: bit g % 8 of
/// entry g / 8 stands for the code points from 64 g on.
struct alignas(64) ThreeByteSet {
  uint8_t entries[128];
};

/// is_in: whether a code point is in the set.
template <class IsIn>
inline TwoByteSet two_byte_set(const IsIn& is_in) {
  TwoByteSet set{};
  for (char32_t c = 0x80; c < 0x800; ++c) {
    set.entries[c / 8] |= static_cast<uint8_t>(is_in(c) ? 1U << (c % 8) : 0);
  }
  return set;
}

/// The groups of which all are in the set.
template <class IsIn>
inline ThreeByteSet three_byte_set(const IsIn& is_in) {
  constexpr char32_t kGroup = 64;
  ThreeByteSet set{};
  for (char32_t group = 0x800 / kGroup; group < 0x10000 / kGroup; ++group) {
    bool all = true;
    for (char32_t c = group * kGroup; c < (group + 1) * kGroup; ++c) all = all && is_in(c);
    set.entries[group / 8] |= static_cast<uint8_t>(all ? 1U << (group % 8) : 0);
  }
  return set;
}

}  // namespace meg::tokenizer::fast
