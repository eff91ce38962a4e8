#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace meg::text {

/// What the character after a backslash stands for; 0 where it is none of "\/bfnrt.
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

/// The value of four hexadecimal digits; negative where one is none.
int hex4(const char* digits);

/// As unescape_one, for \uXXXX and what is no escape.
bool unescape_unit(const char*& at, char*& out);

/// Writes what the escape at `at` (a backslash) stands for to `out` and steps over it. Reads up to
/// 12 bytes. False where the escape is none that JSON knows, or a lone surrogate.
inline bool unescape_one(const char*& at, char*& out) {
  const char meaning = simple_escape(at[1]);
  if (meaning == 0) return unescape_unit(at, out);
  *out++ = meaning;
  at += 2;
  return true;
}

}  // namespace meg::text
