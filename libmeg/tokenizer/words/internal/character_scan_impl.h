// The same for all instruction sets. Included by one source file a set, each compiled with that
// set's flags; everything here is static so that no such code is shared with other files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/words/internal/character_scan.h"

namespace meg::tokenizer {
namespace {

/// The code point of the character at `text`, of two bytes or more.
inline char32_t character_at(const char* text) {
  const auto bits = [text](size_t i, unsigned mask) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]) & mask);
  };
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0xE0) return bits(0, 0x1F) << 6 | bits(1, 0x3F);
  if (lead < 0xF0) return bits(0, 0x0F) << 12 | bits(1, 0x3F) << 6 | bits(2, 0x3F);
  return bits(0, 0x07) << 18 | bits(1, 0x3F) << 12 | bits(2, 0x3F) << 6 | bits(3, 0x3F);
}

/// First bytes of the characters of 64 bytes that are not in the set or have to be looked at.
template <class Block>
inline uint64_t doubtful_leads(const CharacterSet& set, const char* bytes) {
  const Block block(reinterpret_cast<const unsigned char*>(bytes));
  uint64_t leads = block.leads();
  if (leads == 0) return 0;
  if constexpr (requires { block.starts_in(set.two_byte_set()); }) {
    leads &= ~(block.starts_in(set.two_byte_set()) | block.starts_in(set.three_byte_set()));
  }
  return leads;
}

template <class Block>
inline size_t scan_characters(const CharacterSet& set, std::string_view text, size_t at) {
  constexpr size_t kBlockBytes = 64;
  // One more byte is read, and the last character may be of up to three more.
  for (; at + kBlockBytes + 3 <= text.size(); at += kBlockBytes) {
    const char* const block = text.data() + at;
    for (uint64_t left = doubtful_leads<Block>(set, block); left != 0; left &= left - 1) {
      const auto i = static_cast<size_t>(__builtin_ctzll(left));
      if (!set.has(character_at(block + i))) return at + i;
    }
  }
  // The first bytes may belong to a character of the last block.
  for (; at < text.size(); ++at) {
    const bool is_lead = static_cast<unsigned char>(text[at]) >= 0xC0;
    if (is_lead && !set.has(text::decode_code_point(text.substr(at)).code_point)) return at;
  }
  return at;
}

}  // namespace
}  // namespace meg::tokenizer
