#include "libmeg/text/json/json_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "libmeg/base/cpu.h"
#include "libmeg/text/json/string_kernels.h"

namespace meg::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// The offset after the string that begins at `begin`, a quote.
size_t end_of_string(std::string_view object, size_t begin) {
  for (size_t at = begin + 1; at < object.size(); ++at) {
    if (object[at] == '"') return at + 1;
    if (object[at] == '\\') ++at;
  }
  return object.size();
}

}  // namespace

JsonMembers::JsonMembers(std::string_view object) : object_(object) { skip(" \t\r\n{"); }

void JsonMembers::skip(std::string_view characters) {
  at_ = std::min(object_.find_first_not_of(characters, at_), object_.size());
}

size_t JsonMembers::end_of_value(size_t begin) const {
  size_t depth = 0;
  for (size_t at = begin; at < object_.size(); ++at) {
    switch (object_[at]) {
      case '"':
        at = end_of_string(object_, at) - 1;
        break;
      case '[':
      case '{':
        ++depth;
        break;
      case ']':
      case '}':
        if (depth == 0) return at;
        --depth;
        break;
      case ',':
        if (depth == 0) return at;
        break;
      default:
        break;
    }
  }
  return object_.size();
}

bool JsonMembers::next() {
  skip(" \t\r\n,");
  if (at_ >= object_.size() || object_[at_] != '"') return false;
  const size_t key_end = end_of_string(object_, at_);
  key_ = json_string_text(object_.substr(at_, key_end - at_), unescaped_);
  at_ = key_end;
  skip(" \t\r\n:");
  const size_t begin = at_;
  at_ = end_of_value(begin);
  value_ = object_.substr(begin, at_ - begin);
  value_ = value_.substr(0, value_.find_last_not_of(kSpace) + 1);
  return true;
}

std::string_view find_json_value(std::string_view object, std::string_view key) {
  std::string_view found;
  for (JsonMembers members(object); members.next();) {
    if (members.key() == key) found = members.value();
  }
  return found;
}

std::string_view json_string_text(std::string_view value, std::string& buffer) {
  const std::string_view inner = value.substr(1, value.size() - 2);
  if (inner.find('\\') == inner.npos) return inner;
  buffer.resize(value.size() + kTextPadding);
  const char* at = inner.data();
  char* out = buffer.data();
  string_kernels(best_instruction_set()).unescape(at, value.data() + value.size(), out);
  return std::string_view(buffer).substr(0, static_cast<size_t>(out - buffer.data()));
}

void append_json_string(std::string_view text, std::string& out) {
  out += '"';
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text.substr(begin, at - begin));
    begin = at + 1;
    constexpr std::string_view kNamed = "\"\\\n\r\t\f\b", kNames = "\"\\nrtfb";
    if (const size_t place = kNamed.find(c); place != kNamed.npos) {
      out += '\\';
      out += kNames[place];
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
    }
  }
  out.append(text.substr(begin));
  out += '"';
}

}  // namespace meg::text
