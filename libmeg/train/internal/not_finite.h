#pragma once

#include <string_view>

#include "libmeg/base/status.h"

namespace meg::train {

/// kOutOfRange: `what` holds NaN or Inf, which --check-for-nan-in-loss-and-grad does not let pass.
inline Status not_finite_error(std::string_view what, bool has_nan) {
  return make_error(StatusCode::kOutOfRange,
                    "{}: expected finite numbers, found {} (--no-check-for-nan-in-loss-and-grad "
                    "continues)",
                    what, has_nan ? "NaN" : "Inf");
}

}  // namespace meg::train
