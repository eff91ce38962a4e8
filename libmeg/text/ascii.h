#pragma once

// Classes of ASCII characters, whatever the locale; no byte of another character is in one.

namespace meg::text {

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

constexpr bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace meg::text
