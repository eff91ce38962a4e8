#pragma once

#include <string>
#include <string_view>

namespace meg::text {

/// bytes in double quotes for a message: printable ASCII as it is, the rest as \n, \t, \" or \xNN;
/// what lies past `limit` bytes becomes "...".
std::string printable(std::string_view bytes, size_t limit = 40);

/// A name for a message: as it is where it is at most `limit` bytes of printable ASCII without
/// quotes and backslashes, else printable().
std::string printable_name(std::string_view name, size_t limit = 40);

}  // namespace meg::text
