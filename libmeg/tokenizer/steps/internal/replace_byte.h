#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meg::tokenizer {

/// Replacements of more bytes are not for append_replacing_byte().
inline constexpr size_t kMostReplacingBytes = 8;

/// Appends text with `to` in place of each byte `from`, of which there may be many. to: of at most
/// kMostReplacingBytes.
void append_replacing_byte(std::string_view text, char from, std::string_view to, std::string& out);

}  // namespace meg::tokenizer
