#include "libmeg/text/json/internal/string_escape.h"

#include <array>
#include <cstddef>

namespace meg::text {
namespace {

/// Values of hexadecimal digits; -1 for the other bytes.
constexpr std::array<int8_t, 256> kHexValues = [] {
  std::array<int8_t, 256> values{};
  for (auto& value : values) value = -1;
  for (int i = 0; i < 10; ++i) values[static_cast<size_t>('0' + i)] = static_cast<int8_t>(i);
  for (int i = 0; i < 6; ++i) {
    values[static_cast<size_t>('a' + i)] = static_cast<int8_t>(10 + i);
    values[static_cast<size_t>('A' + i)] = static_cast<int8_t>(10 + i);
  }
  return values;
}();

char* write_utf8(uint32_t code_point, char* out) {
  const auto continuation = [&](int shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3f));
  };
  if (code_point < 0x80) {
    *out++ = static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    *out++ = static_cast<char>(0xc0 | (code_point >> 6));
    *out++ = continuation(0);
  } else if (code_point < 0x10000) {
    *out++ = static_cast<char>(0xe0 | (code_point >> 12));
    *out++ = continuation(6);
    *out++ = continuation(0);
  } else {
    *out++ = static_cast<char>(0xf0 | (code_point >> 18));
    *out++ = continuation(12);
    *out++ = continuation(6);
    *out++ = continuation(0);
  }
  return out;
}

}  // namespace

int hex4(const char* digits) {
  const auto value = [&](int i) -> int { return kHexValues[static_cast<uint8_t>(digits[i])]; };
  // A -1 times a power of two is negative, and `|` keeps the sign: one test at the end is enough.
  return value(0) * 4096 | value(1) * 256 | value(2) * 16 | value(3);
}

bool unescape_unit(const char*& at, char*& out) {
  if (at[1] != 'u') return false;
  const int unit = hex4(at + 2);
  at += 6;
  if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000)) return false;
  auto code_point = static_cast<uint32_t>(unit);
  if (unit >= 0xd800 && unit < 0xdc00) {
    // A high surrogate stands only before a low one; both together are one code point.
    const int low = at[0] == '\\' && at[1] == 'u' ? hex4(at + 2) : -1;
    if (low < 0xdc00 || low >= 0xe000) return false;
    code_point = 0x10000 + ((code_point - 0xd800) << 10) + static_cast<uint32_t>(low - 0xdc00);
    at += 6;
  }
  out = write_utf8(code_point, out);
  return true;
}

}  // namespace meg::text
