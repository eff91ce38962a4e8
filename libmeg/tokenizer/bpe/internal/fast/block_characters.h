// What scanners share that decide the characters of 64 bytes at once, masks of which have bit i for
// byte i. Everything here is static, as its users are compiled for different instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// Hands the characters of 0x80 and above, whose bytes `non_ascii` has, to put(class, bits of its
/// bytes). Returns the number of bytes of whole characters in the block: `size`, or less if the
/// last character continues after it.
template <auto class_of, class Put>
inline uint32_t classify_non_ascii(const unsigned char* block, uint32_t size, size_t room,
                                   uint64_t non_ascii, const Put& put) {
  while (non_ascii != 0) {
    const auto i = static_cast<uint32_t>(__builtin_ctzll(non_ascii));
    const auto c = decode<class_of>(block + i, room - i);
    if (i + c.length > size) return i;
    const uint64_t bits = ((uint64_t{1} << c.length) - 1) << i;
    non_ascii &= ~bits;
    put(c.kind, bits);
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
