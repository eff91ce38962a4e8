#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meg {

/// The first byte of `text` that is not part of a well-formed UTF-8 sequence (no overlong forms, no
/// surrogates, nothing above U+10FFFF); text.size() where all is well.
size_t find_invalid_utf8(std::string_view text);

/// Appends `code_point` (surrogates too, in the same way) as UTF-8.
void append_utf8(uint32_t code_point, std::string& text);

}  // namespace meg
