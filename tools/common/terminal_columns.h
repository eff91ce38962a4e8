#pragma once

#include <cstddef>

namespace meg::tools {

/// Characters that a line of the terminal behind a file descriptor takes, 80 where there is none or
/// it does not say.
size_t terminal_columns(int descriptor);

}  // namespace meg::tools
