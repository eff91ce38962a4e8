#pragma once

#include <string_view>

#include "libmeg/base/status.h"

namespace meg::tools {

/// Prints `error: message` on standard error, where it should be the last line, and returns 1.
int fail(const Status& status);

/// Prints `note: text` on standard error.
void note(std::string_view text);

/// Prints `warning: text` on standard error.
void warning(std::string_view text);

}  // namespace meg::tools
