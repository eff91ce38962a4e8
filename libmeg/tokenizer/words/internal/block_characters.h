// What scanners share that decide the characters of 64 bytes at once, masks of which have bit i for
// byte i. Everything here is static, as its users are compiled for different instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "libmeg/tokenizer/words/internal/character_sets.h"

namespace meg::tokenizer::fast {
namespace {

/// Class: an enumeration with a kOther.
template <class Class>
struct Character {
  Class kind;       // kOther for bytes that are not UTF-8
  uint32_t length;  // bytes, 1 to 4
};

/// The character at p, which begins with a byte of 0x80 or above. At most `room` bytes belong to
/// the text. class_of: from a code point to a class.
template <auto class_of, class Class = decltype(class_of(U'\0'))>
inline Character<Class> decode(const unsigned char* p, size_t room) {
  const uint32_t lead = p[0];
  if (lead < 0xe0) {
    if (lead < 0xc2 || room < 2) return {Class::kOther, 1};
    return {class_of(((lead & 0x1f) << 6) | (p[1] & 0x3f)), 2};
  }
  if (lead < 0xf0) {
    if (room < 3) return {Class::kOther, 1};
    return {class_of(((lead & 0x0f) << 12) | ((p[1] & 0x3fu) << 6) | (p[2] & 0x3f)), 3};
  }
  if (room < 4) return {Class::kOther, 1};
  return {class_of(((lead & 0x07) << 18) | ((p[1] & 0x3fu) << 12) | ((p[2] & 0x3fu) << 6) |
                   (p[3] & 0x3f)),
          4};
}

/// Letters that a scanner does not tell apart: a bit for each of their classes, and the one as
/// which it takes them.
template <class Class>
struct Letters {
  uint32_t classes;
  Class as;
};

template <class Class>
constexpr uint32_t class_bit(Class kind) {
  return uint32_t{1} << static_cast<uint32_t>(kind);
}

/// The letters of two bytes of some classes.
template <auto class_of, uint32_t kClasses>
inline const TwoByteSet& two_byte_letters() {
  static const TwoByteSet kSet = two_byte_set(
      [](char32_t code_point) { return (kClasses & class_bit(class_of(code_point))) != 0; });
  return kSet;
}

/// Hands the characters of 0x80 and above, whose bytes `non_ascii` has, to put(class, bits of their
/// first bytes, bits of all their bytes). Returns the number of bytes of whole characters in the
/// block: `size`, or less if the last character continues after it. kLetters: an array of Letters.
/// Blocks that can do so find most letters without looking at single characters.
template <auto class_of, auto kLetters, class Block, class Put>
inline uint32_t classify_non_ascii(const Block& bytes, const unsigned char* block, uint32_t size,
                                   size_t room, uint64_t non_ascii, const Put& put) {
  const uint64_t inside = ~uint64_t{0} >> (64 - size);
  if constexpr (requires { bytes.ideographs(); }) {
    const uint64_t leads = bytes.ideographs() & (inside >> 2);
    const uint64_t all = leads | leads << 1 | leads << 2;
    put(class_of(U'\u4E00'), leads, all);
    non_ascii &= ~all;
  }
  if constexpr (requires { bytes.starts_in(TwoByteSet()); }) {
    [&]<size_t... kGroups>(std::index_sequence<kGroups...>) {
      const auto take = [&](const TwoByteSet& letters, auto as) {
        const uint64_t leads = bytes.starts_in(letters) & (inside >> 1);
        const uint64_t all = leads | leads << 1;
        put(as, leads, all);
        non_ascii &= ~all;
      };
      (take(two_byte_letters<class_of, kLetters[kGroups].classes>(), kLetters[kGroups].as), ...);
    }
    (std::make_index_sequence<kLetters.size()>());
  }
  while (non_ascii != 0) {
    const auto i = static_cast<uint32_t>(__builtin_ctzll(non_ascii));
    const auto c = decode<class_of>(block + i, room - i);
    if (i + c.length > size) return i;
    const uint64_t bits = ((uint64_t{1} << c.length) - 1) << i;
    non_ascii &= ~bits;
    put(c.kind, uint64_t{1} << i, bits);
  }
  return size;
}

/// Moves bits on continuation bytes to the first byte of their character.
inline uint64_t move_to_lead(uint64_t bits, const unsigned char* block) {
  uint64_t moved = 0;
  while (bits != 0) {
    auto i = static_cast<uint32_t>(__builtin_ctzll(bits));
    bits &= bits - 1;
    while (i > 0 && (block[i] & 0xc0) == 0x80) --i;
    moved |= uint64_t{1} << i;
  }
  return moved;
}

}  // namespace
}  // namespace meg::tokenizer::fast
