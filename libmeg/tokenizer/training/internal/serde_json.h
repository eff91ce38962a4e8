#pragma once

#include <string>
#include <string_view>

namespace meg::tokenizer {

/// text (valid UTF-8) in quotes, as the library serde_json writes it and so every file of Hugging
/// Face's tokenizers: only quotes, backslashes and control characters are escaped.
std::string serde_quoted(std::string_view text);

}  // namespace meg::tokenizer
