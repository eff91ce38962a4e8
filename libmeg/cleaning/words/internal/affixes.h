#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

// The regular expressions of spaCy's English tokenizer, as code. Sizes are of characters; 0 where
// there is nothing to split off.

namespace meg::cleaning {

using CodePoints = std::span<const char32_t>;

/// The characters of UTF-8.
std::u32string decoded(std::string_view text);

/// text: not empty.
size_t find_prefix(CodePoints text);

size_t find_suffix(CodePoints text);

/// That begins at `at`.
size_t find_infix(CodePoints text, size_t at);

/// Whether all of it is a URL.
bool is_url(CodePoints text);

}  // namespace meg::cleaning
