#pragma once

#include <string_view>

namespace meg::text {

/// Whether Python's str.isspace treats the code point as whitespace, as do str.split, str.strip and
/// the \s of its regular expressions.
bool is_python_space(char32_t code_point);

/// `text`, which is UTF-8, without leading and trailing whitespace: str.strip(). A view into it.
std::string_view python_strip(std::string_view text);

/// text.split()[-1]: the last run of characters that are not whitespace; empty if there is none.
std::string_view last_word(std::string_view text);

}  // namespace meg::text
