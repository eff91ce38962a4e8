#include "libmeg/checkpoint/container/json/internal/json_string.h"

#include <fmt/format.h>

#include "libmeg/text/utf8.h"

namespace meg::checkpoint {

std::string json_string(std::string_view text) {
  std::string valid;
  // Names in checkpoints are bytes of strangers; JSON is UTF-8.
  text::append_replacing_invalid_utf8(text, valid);
  std::string json = "\"";
  for (const char c : valid) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      json += c;
    }
  }
  return json + '"';
}

std::string json_real(double value) {
  const std::string text = fmt::format("{}", value);
  // Readers tell integers from floats by the point alone.
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace meg::checkpoint
