#include "libmeg/text/python_text.h"

#include "libmeg/text/utf8.h"

namespace meg::text {
namespace {

bool is_space_at(std::string_view text, size_t at) {
  return is_python_space(decode_code_point(text.substr(at)).code_point);
}

std::string_view without_trailing(std::string_view text, bool space) {
  while (!text.empty()) {
    const size_t at = begin_of_character_before(text, text.size());
    if (is_space_at(text, at) != space) break;
    text = text.substr(0, at);
  }
  return text;
}

}  // namespace

bool is_python_space(char32_t code_point) {
  if (code_point <= U' ') {
    return (code_point >= U'\t' && code_point <= U'\r') || code_point >= U'\x1C';
  }
  switch (code_point) {
    case U'\x85':
    case U'\xA0':
    case U'\u1680':
    case U'\u2028':
    case U'\u2029':
    case U'\u202F':
    case U'\u205F':
    case U'\u3000':
      return true;
    default:
      return code_point >= U'\u2000' && code_point <= U'\u200A';
  }
}

std::string_view python_strip(std::string_view text) {
  text = without_trailing(text, true);
  while (!text.empty() && is_space_at(text, 0)) {
    text.remove_prefix(decode_code_point(text).size);
  }
  return text;
}

std::string_view last_word(std::string_view text) {
  text = without_trailing(text, true);
  return text.substr(without_trailing(text, false).size());
}

}  // namespace meg::text
