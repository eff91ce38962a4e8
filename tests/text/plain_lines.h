#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace meg::test {

/// The lines of a text by the rules of Python's text mode: LF, CRLF and a lone CR end a line. Byte
/// by byte, for comparison.
inline std::vector<std::string> plain_lines(std::string_view text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n' && text[i] != '\r') continue;
    lines.emplace_back(text.substr(begin, i - begin));
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
    begin = i + 1;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

}  // namespace meg::test
