#include "libmeg/text/json/json_text.h"

#include <fmt/format.h>

#include <iterator>

#include "libmeg/text/json/python_float.h"
#include "libmeg/text/utf8.h"

// The bytes matter, not only the values: descriptions of index caches are written with this, and
// their MD5 names the cache files that Megatron looks for.

namespace meg::text {
namespace {

constexpr size_t kIndent = 4;
constexpr char32_t kFirstSupplementary = 0x10000;
constexpr uint32_t kEscapedByte = 0xdc00;  // Python's surrogateescape

void append_escape(uint32_t unit, std::string& text) {
  fmt::format_to(std::back_inserter(text), "\\u{:04x}", unit);
}

void append_code_point_escape(char32_t code_point, std::string& text) {
  if (code_point < kFirstSupplementary) return append_escape(code_point, text);
  const uint32_t rest = code_point - kFirstSupplementary;
  append_escape(0xd800 + (rest >> 10), text);
  append_escape(0xdc00 + (rest & 0x3ff), text);
}

void append_ascii(char letter, std::string& text) {
  constexpr std::string_view kNamed = "\"\\\n\r\t\f\b";
  constexpr std::string_view kNames = "\"\\nrtfb";
  const size_t place = kNamed.find(letter);
  if (place != std::string_view::npos) {
    text += '\\';
    text += kNames[place];
  } else if (letter < ' ' || letter == '\x7f') {
    append_escape(static_cast<unsigned char>(letter), text);
  } else {
    text += letter;
  }
}

}  // namespace

void JsonText::key(std::string_view name) {
  before_value();
  append_string(name);
  text_ += ": ";
  has_key_ = true;
}

void JsonText::string(std::string_view text) {
  before_value();
  append_string(text);
}

void JsonText::number(double value) { literal(python_float_text(value)); }

void JsonText::literal(std::string_view text) {
  before_value();
  text_ += text;
}

void JsonText::begin(char bracket) {
  before_value();
  text_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonText::end(char bracket) {
  --depth_;
  if (!first_) new_line();  // json.dumps writes empty containers as [] and {}
  text_ += bracket;
  first_ = false;  // of the brackets around these, which now hold something
}

void JsonText::before_value() {
  // A value after its key, or the outermost one, stands where it is; any other begins a line.
  if (has_key_ || depth_ == 0) {
    has_key_ = false;
    return;
  }
  if (!first_) text_ += ',';
  first_ = false;
  new_line();
}

void JsonText::new_line() {
  text_ += '\n';
  text_.append(depth_ * kIndent, ' ');
}

void JsonText::append_string(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      append_ascii(text[0], text_);
      text.remove_prefix(1);
      continue;
    }
    const DecodedCodePoint decoded = decode_code_point(text);
    if (decoded.code_point != kInvalidCodePoint) {
      append_code_point_escape(decoded.code_point, text_);
    } else {
      for (const char byte : text.substr(0, decoded.size)) {
        append_escape(kEscapedByte + static_cast<unsigned char>(byte), text_);
      }
    }
    text.remove_prefix(decoded.size);
  }
  text_ += '"';
}

}  // namespace meg::text
