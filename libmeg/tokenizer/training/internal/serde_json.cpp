#include "libmeg/tokenizer/training/internal/serde_json.h"

#include <fmt/format.h>

namespace meg::tokenizer {

std::string serde_quoted(std::string_view text) {
  // Write as serde_json does, by which tokenizers writes: the short escapes, \u00xx for other
  // controls, and UTF-8 as it is.
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  std::string quoted = "\"";
  for (const char c : text) {
    const size_t escape = kEscaped.find(c);
    if (escape != kEscaped.npos) {
      quoted += '\\';
      quoted += kLetters[escape];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace meg::tokenizer
