#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/chat/internal/value.h"
#include "libmeg/text/utf8.h"

namespace meg::chat {

/// Calls f(code point, its bytes) for each character.
template <class F>
void for_each_character(std::string_view text, F&& f) {
  while (!text.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(text);
    f(next.code_point, text.substr(0, next.size));
    text.remove_prefix(next.size);
  }
}

bool is_letter(char32_t c);
bool is_decimal(char32_t c);
bool is_other_number(char32_t c);  ///< Such as superscripts.

// str's methods, which filters share. Letters change their case one by one: those that Python
// replaces by several are refused.
Result<std::string> upper(std::string_view text);
std::string lower(std::string_view text);
Result<std::string> titled(std::string_view text);  ///< As str.title().
Result<std::string> capitalized(std::string_view text);
std::string_view stripped(std::string_view text, const std::optional<std::string>& characters,
                          bool at_begin, bool at_end);
std::vector<std::string_view> lines_of(std::string_view text, bool with_ends = false);
bool is_of_case(std::string_view text, bool is_upper);  ///< isupper(), islower()
std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     int64_t most);

/// text % argument (several are a tuple), with %s, %d, %i, %r, %f, %x and %%.
Result<std::string> percent_formatted(std::string_view text, const Value& argument);

/// text.format(...), with {}, {0} and {name} alone.
Result<std::string> brace_formatted(std::string_view text, const Arguments& arguments);

}  // namespace meg::chat
