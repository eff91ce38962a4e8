#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace meg::tokenizer {

/// The bytes of padded base64; nullopt if the text is not base64.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace meg::tokenizer
