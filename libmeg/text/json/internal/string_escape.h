#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace meg::text {

/// The character that an escape stands for, by the character after the backslash; 0 unless it is
/// one of "\/bfnrt.
inline constexpr std::array<char, 256> kSimpleEscapes = [] {
  std::array<char, 256> meanings{};
  meanings['"'] = '"';
  meanings['\\'] = '\\';
  meanings['/'] = '/';
  meanings['b'] = '\b';
  meanings['f'] = '\f';
  meanings['n'] = '\n';
  meanings['r'] = '\r';
  meanings['t'] = '\t';
  return meanings;
}();

inline char simple_escape(char letter) { return kSimpleEscapes[static_cast<uint8_t>(letter)]; }

/// The value of four hexadecimal digits; negative if one of them is not.
int hex4(const char* digits);

/// Like unescape_one(), for \uXXXX and invalid escapes.
bool unescape_unit(const char*& at, char*& out);

/// Writes the character of the escape at `at` (a backslash) to `out` and skips the escape. Reads up
/// to 12 bytes. False if JSON has no such escape, or if it is a lone surrogate.
inline bool unescape_one(const char*& at, char*& out) {
  const char meaning = simple_escape(at[1]);
  if (meaning == 0) return unescape_unit(at, out);
  *out++ = meaning;
  at += 2;
  return true;
}

}  // namespace meg::text
