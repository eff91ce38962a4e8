#include "libmeg/text/terminal_text.h"

#include <fmt/format.h>

#include "libmeg/text/utf8.h"

namespace meg::text {
namespace {

/// C0, DEL and C1, less what a text is laid out with. C1 too, as terminals take U+009B for the
/// beginning of a command.
bool is_control(char32_t code_point) {
  if (code_point == '\n' || code_point == '\t') return false;
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
}

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto [code_point, size] = decode_code_point(text);
    const std::string_view bytes = text.substr(0, size);
    text.remove_prefix(size);
    if (code_point != kInvalidCodePoint && !is_control(code_point)) {
      shown += bytes;
      continue;
    }
    for (const char byte : bytes) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return shown;
}

}  // namespace meg::text
