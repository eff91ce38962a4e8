#pragma once

#include <cstdint>

namespace meg {

/// What the character after a backslash stands for; 0 where it is none of "\/bfnrt.
constexpr char simple_escape(char letter) {
  switch (letter) {
    case '"':
    case '\\':
    case '/':
      return letter;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return 0;
  }
}

/// The value of four hexadecimal digits; negative where one is none.
int hex4(const char* digits);

/// Writes what the escape at `at` (a backslash) stands for to `out` and steps over it. Reads up to
/// 12 bytes. False where the escape is none that JSON knows, or a lone surrogate.
bool unescape_one(const char*& at, char*& out);

}  // namespace meg
