#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

// Classes of ASCII characters, whatever the locale; no byte of another character is in one.

namespace meg::text {

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

constexpr bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// A letter in lower case, anything else as it is.
constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Whether all characters are.
inline bool is_ascii(std::string_view text) {
  for (; text.size() >= sizeof(uint64_t); text.remove_prefix(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, text.data(), sizeof(word));
    if ((word & 0x8080808080808080) != 0) return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

}  // namespace meg::text
