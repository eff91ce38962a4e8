#pragma once

#include <string>
#include <string_view>

namespace meg::text {

/// bytes in double quotes for a message: printable ASCII as it is, the rest as \n, \t, \" or \xNN;
/// what lies past `limit` bytes becomes "...".
std::string printable(std::string_view bytes, size_t limit = 40);

}  // namespace meg::text
