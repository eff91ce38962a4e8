#pragma once

#include <string>
#include <string_view>

namespace meg::tokenizer {

/// Replaces every `from`, which must not be empty, from left to right; what comes of one is not
/// looked at again. Where more text follows, what may be the beginning of another `from` is cut
/// off the end, so that what is left stays whatever follows.
void replace_all(std::string& text, std::string_view from, std::string_view to, bool more_follows);

}  // namespace meg::tokenizer
