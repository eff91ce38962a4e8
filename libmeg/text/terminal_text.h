#pragma once

#include <string>
#include <string_view>

namespace meg::text {

/// text as a terminal may show it: control characters but newlines and tabs, and bytes that are not
/// UTF-8, as \xNN, so that nothing in it moves the cursor or types commands.
std::string terminal_text(std::string_view text);

}  // namespace meg::text
