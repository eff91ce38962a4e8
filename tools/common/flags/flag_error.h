#pragma once

#include <utility>

#include "libmeg/base/status.h"

namespace meg::tools {

/// An error about a word of a command line or of a config file.
template <class... Args>
Status flag_error(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

}  // namespace meg::tools
