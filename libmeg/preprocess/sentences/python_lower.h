#pragma once

#include <string>
#include <string_view>

namespace meg::preprocess {

/// Python's str.lower() of UTF-8.
std::string lower(std::string_view text);

}  // namespace meg::preprocess
