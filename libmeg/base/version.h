#pragma once

#include <string_view>

namespace meg {

/// libmeg's version, such as "0.1.0".
std::string_view version();

}  // namespace meg
