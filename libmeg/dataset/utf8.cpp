#include "libmeg/dataset/utf8.h"

namespace meg {
namespace {

uint32_t byte_at(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

bool is_continuation(std::string_view text, size_t at) {
  return (byte_at(text, at) & 0xc0) == 0x80;
}

/// Bytes of the well-formed sequence at `at`; 0 where there is none. Unicode's table 3-7.
size_t sequence_size(std::string_view text, size_t at) {
  const uint32_t first = byte_at(text, at);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !is_continuation(text, at + 1)) return 0;
  if (first < 0xe0) return 2;
  const uint32_t second = byte_at(text, at + 1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if (!is_continuation(text, at + 2)) return 0;
  if (first < 0xf0) return 3;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return is_continuation(text, at + 3) ? 4 : 0;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = sequence_size(text, at);
    if (size == 0) return at;
    at += size;
  }
  return text.size();
}

void append_utf8(uint32_t code_point, std::string& text) {
  const auto append_continuation = [&](int shift) {
    text += static_cast<char>(0x80 | ((code_point >> shift) & 0x3f));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xc0 | (code_point >> 6));
    append_continuation(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xe0 | (code_point >> 12));
    append_continuation(6);
    append_continuation(0);
  } else {
    text += static_cast<char>(0xf0 | (code_point >> 18));
    append_continuation(12);
    append_continuation(6);
    append_continuation(0);
  }
}

}  // namespace meg
