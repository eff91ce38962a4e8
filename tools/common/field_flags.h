#pragma once

#include <string>
#include <string_view>

namespace meg::tools {

/// A message of the library for users of a command line. The library names an option by its field,
/// "`min_tokens`: expected ..." or "`check_masters = false` skips ...", this by the flag that sets
/// it: "--min-tokens: expected ...", "--no-master-check skips ...".
std::string with_flags(std::string_view message);

}  // namespace meg::tools
