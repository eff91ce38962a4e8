#include "libmeg/checkpoint/container/pickle/pickle_text.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"

namespace meg::checkpoint {

namespace {

/// Reads `count` digits at the start of text into *value.
bool parse_digits(std::string_view text, size_t count, int base, uint32_t* value) {
  if (text.size() < count) return false;
  const char* end = text.data() + count;
  const auto [stop, error] = std::from_chars(text.data(), end, *value, base);
  return error == std::errc() && stop == end;
}

Status bad_escape(std::string_view line, size_t at) {
  return make_error(StatusCode::kCorruption, "text: expected a whole escape, found {}",
                    text::printable(line.substr(at)));
}

/// The byte for a backslash followed by `letter`, or -1.
int simple_escape(char letter) {
  switch (letter) {
    case '\\':
    case '\'':
    case '"':
      return letter;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return -1;
  }
}

/// Undoes the escapes of a bytes literal.
Result<std::string> unescape_bytes(std::string_view line) {
  std::string bytes;
  for (size_t at = 0; at < line.size();) {
    if (line[at] != '\\') {
      bytes.push_back(line[at++]);
      continue;
    }
    if (at + 1 == line.size()) return bad_escape(line, at);
    const char letter = line[at + 1];
    if (const int simple = simple_escape(letter); simple >= 0) {
      bytes.push_back(static_cast<char>(simple));
      at += 2;
    } else if (letter == 'x') {
      uint32_t value = 0;
      if (!parse_digits(line.substr(at + 2), 2, 16, &value)) return bad_escape(line, at);
      bytes.push_back(static_cast<char>(value));
      at += 4;
    } else if (letter >= '0' && letter <= '7') {
      unsigned value = 0;
      size_t end = at + 1;
      for (; end < line.size() && end < at + 4 && line[end] >= '0' && line[end] <= '7'; ++end) {
        value = value * 8 + static_cast<unsigned>(line[end] - '0');
      }
      bytes.push_back(static_cast<char>(value));
      at = end;
    } else {  // Python keeps what it does not know
      bytes.push_back('\\');
      ++at;
    }
  }
  return bytes;
}

}  // namespace

/// Python's pickler writes lone surrogates with "surrogatepass", as UTF-8 would if it allowed them.
/// They are kept as these three bytes, so that the writer gives them back.
text::DecodedCodePoint decode_python_code_point(std::string_view text) {
  const auto byte_at = [text](size_t at) { return static_cast<unsigned char>(text[at]); };
  const bool is_surrogate = text.size() >= 3 && byte_at(0) == 0xED &&
                            (byte_at(1) & 0xE0u) == 0xA0 && (byte_at(2) & 0xC0u) == 0x80;
  if (!is_surrogate) return text::decode_code_point(text);
  return {0xD000u | (byte_at(1) & 0x3Fu) << 6 | (byte_at(2) & 0x3Fu), 3};
}

Result<std::string> decode_utf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t invalid = text::find_invalid_utf8(bytes.substr(at));
    if (invalid == std::string_view::npos) break;
    at += invalid;
    if (decode_python_code_point(bytes.substr(at)).code_point == text::kInvalidCodePoint) {
      return make_error(StatusCode::kCorruption, "text: expected UTF-8, found {}",
                        text::printable(bytes.substr(at), 8));
    }
    at += 3;
  }
  return std::string(bytes);
}

Result<std::string> decode_raw_unicode_escape(std::string_view line) {
  std::string text;
  for (size_t at = 0; at < line.size();) {
    const char next = at + 1 < line.size() ? line[at + 1] : '\0';
    if (line[at] != '\\') {
      // All other bytes are Latin-1 in this encoding of Python's.
      text::append_code_point(static_cast<unsigned char>(line[at++]), text);
    } else if (next == 'u' || next == 'U') {
      const size_t digits = next == 'u' ? 4 : 8;
      uint32_t code_point = 0;
      if (!parse_digits(line.substr(at + 2), digits, 16, &code_point) || code_point > 0x10FFFF) {
        return bad_escape(line, at);
      }
      text::append_code_point(code_point, text);
      at += 2 + digits;
    } else {  // a backslash hides the one after it
      const size_t count = next == '\\' ? 2 : 1;
      text.append(count, '\\');
      at += count;
    }
  }
  return text;
}

Result<std::string> decode_quoted_string(std::string_view line) {
  const bool quoted = line.size() >= 2 && line.front() == line.back() &&
                      (line.front() == '\'' || line.front() == '"');
  if (!quoted) {
    return make_error(StatusCode::kCorruption, "STRING: expected text in quotes, found {}",
                      text::printable(line));
  }
  return unescape_bytes(line.substr(1, line.size() - 2));
}

Result<double> decode_float(std::string_view line) {
  double value = 0;
  // from_chars takes no plus sign, Python's float() does.
  const std::string_view digits = line.starts_with('+') ? line.substr(1) : line;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::invalid_argument || stop != digits.data() + digits.size()) {
    return make_error(StatusCode::kCorruption, "FLOAT: expected a number, found {}",
                      text::printable(line));
  }
  // from_chars leaves the value alone there; strtod gives infinity or zero, as Python's float()
  // does.
  if (error == std::errc::result_out_of_range)
    value = std::strtod(std::string(digits).c_str(), nullptr);
  return value;
}

}  // namespace meg::checkpoint
