#pragma once

#include <string>
#include <string_view>

namespace meg::text {

/// Bytes in double quotes for a message: printable ASCII unchanged, the rest as \n, \t, \" or \xNN,
/// and "..." in place of everything after `limit` bytes.
std::string printable(std::string_view bytes, size_t limit = 40);

/// A name for a message: unchanged if it is at most `limit` bytes of printable ASCII without quotes
/// and backslashes, otherwise as in printable().
std::string printable_name(std::string_view name, size_t limit = 40);

}  // namespace meg::text
