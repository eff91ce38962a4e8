#include "libmeg/chat/internal/text_functions.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdio>

#include "libmeg/text/printable.h"
#include "libmeg/text/python_text.h"

namespace meg::chat {
namespace {

utf8proc_int32_t number_of(char32_t c) { return static_cast<utf8proc_int32_t>(c); }

/// Whether Python's str.upper() makes several letters of it (SpecialCasing.txt).
bool has_long_upper_case(char32_t c) {
  return c == 0xDF || c == 0x149 || c == 0x1F0 || c == 0x390 || c == 0x3B0 || c == 0x587 ||
         (c >= 0x1E96 && c <= 0x1E9A) || (c >= 0x1F50 && c <= 0x1F56) ||
         (c >= 0x1F80 && c <= 0x1FFC) || (c >= 0xFB00 && c <= 0xFB17);
}

Result<std::string> long_upper_case(std::string_view bytes) {
  return make_error(StatusCode::kUnsupported, "upper: {} has no upper case of one letter",
                    text::printable(bytes));
}

bool is_cased(char32_t c) {
  return utf8proc_isupper(number_of(c)) != 0 || utf8proc_islower(number_of(c)) != 0;
}

}  // namespace

bool is_letter(char32_t c) {
  const auto category = utf8proc_category(number_of(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return utf8proc_category(number_of(c)) == UTF8PROC_CATEGORY_ND; }

bool is_other_number(char32_t c) { return utf8proc_category(number_of(c)) == UTF8PROC_CATEGORY_NO; }

Result<std::string> titled(std::string_view text) {
  std::string made;
  bool in_word = false;
  Status status;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (!in_word && has_long_upper_case(c)) status = long_upper_case(bytes).status();
    const auto turned = in_word ? utf8proc_tolower(number_of(c)) : utf8proc_totitle(number_of(c));
    text::append_code_point(static_cast<char32_t>(turned), made);
    in_word = is_cased(c);
  });
  if (!status.ok()) return status;
  return made;
}

Result<std::string> upper(std::string_view text) {
  std::string made;
  Status status;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (has_long_upper_case(c)) status = long_upper_case(bytes).status();
    text::append_code_point(static_cast<char32_t>(utf8proc_toupper(number_of(c))), made);
  });
  if (!status.ok()) return status;
  return made;
}

std::string lower(std::string_view text) {
  std::string made;
  for_each_character(text, [&](char32_t c, std::string_view) {
    text::append_code_point(static_cast<char32_t>(utf8proc_tolower(number_of(c))), made);
  });
  return made;
}

Result<std::string> capitalized(std::string_view text) {
  const size_t first = offset_of(text, 1);
  MEG_ASSIGN_OR_RETURN(std::string made, titled(text.substr(0, first)));
  return made + lower(text.substr(first));
}

std::string_view stripped(std::string_view text, const std::optional<std::string>& characters,
                          bool at_begin, bool at_end) {
  const auto goes = [&](std::string_view character) {
    return characters ? characters->find(character) != std::string::npos
                      : text::is_python_space(text::decode_code_point(character).code_point);
  };
  while (at_begin && !text.empty()) {
    const size_t size = text::decode_code_point(text).size;
    if (!goes(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (at_end && !text.empty()) {
    const size_t begin = text::begin_of_character_before(text, text.size());
    if (!goes(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text, bool with_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
    const char32_t c = next.code_point;
    const bool is_end = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                        c == 0x2028 || c == 0x2029;
    size_t end = at + next.size;
    if (is_end) {
      if (c == '\r' && end < text.size() && text[end] == '\n') ++end;
      lines.push_back(text.substr(begin, (with_ends ? end : at) - begin));
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

bool is_of_case(std::string_view text, bool is_upper) {
  bool has_any = false, all = true;
  for_each_character(text, [&](char32_t c, std::string_view) {
    if (!is_cased(c)) return;
    has_any = true;
    all = all && (utf8proc_isupper(number_of(c)) != 0) == is_upper;
  });
  return has_any && all;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     int64_t most) {
  std::string made;
  size_t at = 0;
  for (; most != 0; --most) {
    size_t found = text.find(old, at);
    if (found == std::string_view::npos) break;
    if (old.empty()) {  // before each character, and at the end
      made += by;
      if (at == text.size()) return made;
      found = at + text::character_size(text[at]);
      made += text.substr(at, found - at);
      at = found;
      continue;
    }
    made += text.substr(at, found - at);
    made += by;
    at = found + old.size();
  }
  made += text.substr(at);
  return made;
}

Result<std::string> percent_formatted(std::string_view text, const Value& argument) {
  const bool is_tuple = argument.sequence() != nullptr && argument.sequence()->is_tuple;
  const std::vector<Value> single = {argument};
  const std::vector<Value>& arguments = is_tuple ? argument.sequence()->items : single;
  std::string made;
  size_t used = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      made += text[at];
      continue;
    }
    const size_t begin = at++;
    while (at < text.size() &&
           std::string_view("0123456789.-+ #").find(text[at]) != std::string_view::npos) {
      ++at;
    }
    const char kind = at < text.size() ? text[at] : '\0';
    const std::string flags(text.substr(begin, at - begin));
    if (kind == '%' && flags == "%") {
      made += '%';
      continue;
    }
    if (used == arguments.size()) {
      return Status(StatusCode::kInvalidArgument, "%: more places than arguments");
    }
    const Value& value = arguments[used++];
    if (flags.size() > 8) return Status(StatusCode::kUnsupported, "%: a width beyond 6 digits");
    char digits[512];
    if ((kind == 's' || kind == 'r') && flags == "%") {
      made += kind == 's' ? value.str() : value.repr();
    } else if ((kind == 'd' || kind == 'i' || kind == 'x' || kind == 'X') && value.number()) {
      const double number = *value.number();
      if (kind == 'x' || kind == 'X') {
        if (!value.integer() || number < 0) return type_error("%x", "an int from 0 on", value);
      }
      const auto whole = value.integer() ? *value.integer() : static_cast<int64_t>(number);
      const int size = std::snprintf(digits, sizeof(digits), (flags + "l" + kind).c_str(), whole);
      made.append(digits, static_cast<size_t>(std::min<int>(size, sizeof(digits) - 1)));
    } else if ((kind == 'f' || kind == 'e' || kind == 'g') && value.number()) {
      const int size =
          std::snprintf(digits, sizeof(digits), (flags + kind).c_str(), *value.number());
      made.append(digits, static_cast<size_t>(std::min<int>(size, sizeof(digits) - 1)));
    } else {
      return make_error(StatusCode::kUnsupported, "%: {}{} of {} is not supported", flags, kind,
                        value.type_name());
    }
  }
  // Python takes what has items for names of arguments, of which some may be left.
  const bool has_items = argument.is_undefined() || argument.dict_content() != nullptr ||
                         (argument.sequence() != nullptr && !is_tuple);
  if (used != arguments.size() && !has_items) {
    return Status(StatusCode::kInvalidArgument, "%: not all arguments were converted");
  }
  return made;
}

Result<std::string> brace_formatted(std::string_view text, const Arguments& arguments) {
  std::string made;
  size_t next = 0;
  bool has_numbers = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      made += c;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      made += c;
      ++at;
      continue;
    }
    const size_t end = text.find('}', at);
    if (c == '}' || end == std::string_view::npos) {
      return Status(StatusCode::kInvalidArgument, "format: a single brace");
    }
    const std::string name(text.substr(at + 1, end - at - 1));
    const Value* value = nullptr;
    if (name.find_first_not_of("0123456789") == std::string::npos && name.size() < 10) {
      has_numbers = has_numbers || !name.empty();
      if (has_numbers && (next > 0 || name.empty())) {
        return Status(StatusCode::kInvalidArgument, "format: expected {} or {0}, not both");
      }
      const size_t place = name.empty() ? next++ : std::stoul(name);
      if (place < arguments.positional.size()) value = &arguments.positional[place];
    }
    for (const auto& [keyword, given] : arguments.keywords) {
      if (keyword == name) value = &given;
    }
    if (value == nullptr) {
      return make_error(StatusCode::kUnsupported, "format: no argument {}", text::printable(name));
    }
    made += value->str();
    at = end;
  }
  return made;
}

}  // namespace meg::chat
