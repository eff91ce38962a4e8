#include "libmeg/text/printable.h"

#include <fmt/format.h>

namespace meg::text {

std::string printable(std::string_view bytes, size_t limit) {
  std::string out = "\"";
  for (const char c : bytes.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  out += bytes.size() > limit ? "...\"" : "\"";
  return out;
}

std::string printable_name(std::string_view name, size_t limit) {
  std::string quoted = printable(name, limit);
  // A longer name, cut and spelled out, may happen to have this size, too.
  const bool is_plain = name.size() <= limit && quoted.size() == name.size() + 2;
  return is_plain ? std::string(name) : quoted;
}

}  // namespace meg::text
