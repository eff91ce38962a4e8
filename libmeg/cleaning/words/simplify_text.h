#pragma once

#include <string>
#include <string_view>

namespace meg::cleaning {

/// `text`, which is UTF-8, as near duplicates are compared: lower case, numbers as 0, punctuation
/// and whitespace as one space, without diacritics. Mirrors datatrove 0.10's simplify_text with its
/// defaults.
void simplify_text(std::string_view text, std::string& out);

}  // namespace meg::cleaning
