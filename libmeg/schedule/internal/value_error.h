#pragma once

#include <string_view>

#include "libmeg/base/status.h"

namespace meg::schedule {

/// kInvalidArgument: a value that is none of those that may be.
inline Status value_error(std::string_view what, std::string_view expected, double found) {
  return make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", what, expected,
                    found);
}

}  // namespace meg::schedule
