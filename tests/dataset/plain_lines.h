#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meg::test {

/// The lines of a text by the rules of Python's text mode: LF, CRLF and a lone CR end a line. Byte
/// by byte, for comparison.
inline std::vector<std::string> plain_lines(std::string_view text) {
  std::vector<std::string> lines;
  bool is_new = true;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_new) lines.emplace_back();
    is_new = text[i] == '\n' || text[i] == '\r';
    if (!is_new) lines.back() += text[i];
    if (text.substr(i, 2) == "\r\n") ++i;
  }
  return lines;
}

}  // namespace meg::test
