#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meg::text {

/// Given for bytes that are no code point; not a code point itself.
inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFF;

struct DecodedCodePoint {
  char32_t code_point;
  size_t size;  ///< bytes
};

/// The code point at the start of text, which must not be empty. Where the bytes are not UTF-8:
/// kInvalidCodePoint, and as size the longest start of a valid sequence found there (1 to 3 bytes),
/// which Python's errors="replace" and the Unicode standard turn into one U+FFFD.
/// Surrogates, overlong forms and values above U+10FFFF are not valid.
DecodedCodePoint decode_code_point(std::string_view text);

/// Whether a byte of UTF-8 is not the first of its character.
constexpr bool is_continuation_byte(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The offset of the character that ends where `end`, which is not 0, begins.
constexpr size_t begin_of_character_before(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && is_continuation_byte(text[end]));
  return end;
}

/// The size of the character that begins with `lead` in valid UTF-8.
constexpr size_t character_size(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The size of `text` without an incomplete character at its end.
size_t size_of_whole_characters(std::string_view text);

/// Appends code_point, which must be below 0x110000; a surrogate is written by the same rule, which
/// is then not UTF-8.
void append_code_point(char32_t code_point, std::string& text);

/// Offset of the first byte that is not part of valid UTF-8; npos where all is valid.
size_t find_invalid_utf8(std::string_view text);

/// Appends bytes to text with U+FFFD for what is not UTF-8, as Python's
/// bytes.decode("utf-8", errors="replace").
void append_replacing_invalid_utf8(std::string_view bytes, std::string& text);

}  // namespace meg::text
