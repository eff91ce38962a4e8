#include "libmeg/text/utf8.h"

#include <simdjson.h>

#include <cstdint>

namespace meg::text {

namespace {

/// What the first byte says of a sequence. Only the second byte has a range narrower than 0x80 to
/// 0xBF, and that range is what rules out overlong forms (E0, F0), surrogates (ED) and code points
/// past U+10FFFF (F4): the Unicode standard's table 3-7. C0, C1 and F5 to FF lead nothing.
struct Lead {
  size_t size;  // bytes of the whole sequence; 0 where the byte cannot lead
  unsigned char second_first, second_last;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

DecodedCodePoint decode_code_point(std::string_view text) {
  const auto byte_at = [text](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte_at(0);
  if (first < 0x80) return {first, 1};
  const Lead lead = lead_of(first);
  if (lead.size == 0) return {kInvalidCodePoint, 1};
  char32_t code_point = first & (0x7Fu >> lead.size);
  for (size_t at = 1; at < lead.size; ++at) {
    const unsigned char low = at == 1 ? lead.second_first : 0x80;
    const unsigned char high = at == 1 ? lead.second_last : 0xBF;
    // The bytes before this one are a valid start: they are replaced together, and this one begins
    // the next sequence: Python writes as many U+FFFD.
    if (at == text.size() || byte_at(at) < low || byte_at(at) > high) {
      return {kInvalidCodePoint, at};
    }
    code_point = (code_point << 6) | (byte_at(at) & 0x3Fu);
  }
  return {code_point, lead.size};
}

size_t size_of_whole_characters(std::string_view text) {
  constexpr size_t kMost = 3;  // bytes of a character that lacks one
  for (size_t left = 1; left <= kMost && left <= text.size(); ++left) {
    const std::string_view end = text.substr(text.size() - left);
    const size_t whole = lead_of(static_cast<unsigned char>(end[0])).size;
    if (whole > left && decode_code_point(end).size == left) return text.size() - left;
  }
  return text.size();
}

void append_code_point(char32_t code_point, std::string& text) {
  const auto append = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto append_tail = [&](int shift) { append(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xC0 | (code_point >> 6));
    append_tail(0);
  } else if (code_point < 0x10000) {
    append(0xE0 | (code_point >> 12));
    append_tail(6);
    append_tail(0);
  } else {
    append(0xF0 | (code_point >> 18));
    append_tail(12);
    append_tail(6);
    append_tail(0);
  }
}

size_t find_invalid_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text)) return std::string_view::npos;  // It does not say where.
  for (size_t at = 0; at < text.size();) {
    const DecodedCodePoint found = decode_code_point(text.substr(at));
    if (found.code_point == kInvalidCodePoint) return at;
    at += found.size;
  }
  return std::string_view::npos;
}

void append_replacing_invalid_utf8(std::string_view bytes, std::string& text) {
  for (size_t at = 0; at < bytes.size();) {
    const DecodedCodePoint found = decode_code_point(bytes.substr(at));
    if (found.code_point == kInvalidCodePoint) {
      append_code_point(0xFFFD, text);
    } else {
      text.append(bytes, at, found.size);
    }
    at += found.size;
  }
}

}  // namespace meg::text
