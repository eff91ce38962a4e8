#pragma once

#include <string_view>

namespace meg::text {

/// The whitespace of C's isspace and Python's bytes.strip().
inline constexpr std::string_view kWhitespace = " \t\n\r\f\v";

/// The part of `text` from its first character that is no whitespace to its last: a view into it,
/// empty when there is none.
inline std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhitespace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhitespace) - first + 1);
}

}  // namespace meg::text
