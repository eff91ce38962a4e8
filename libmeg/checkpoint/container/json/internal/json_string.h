#pragma once

#include <string>
#include <string_view>

namespace meg::checkpoint {

/// `text` as a JSON string, with U+FFFD in place of what is not UTF-8.
std::string json_string(std::string_view text);

/// A finite number, always with a point or an exponent, so that readers take it as a float.
std::string json_real(double value);

}  // namespace meg::checkpoint
