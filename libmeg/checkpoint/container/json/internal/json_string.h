#pragma once

#include <string>
#include <string_view>

namespace meg::checkpoint {

/// text in double quotes, as JSON has it; U+FFFD for what is not UTF-8.
std::string json_string(std::string_view text);

/// A finite number, with a point or an exponent, so that readers take it for a real one.
std::string json_real(double value);

}  // namespace meg::checkpoint
