#pragma once

#include <string_view>

#include "libmeg/base/status.h"

namespace meg::train {

/// kOutOfRange: `what` contains NaN or Inf, which --check-for-nan-in-loss-and-grad rejects.
inline Status not_finite_error(std::string_view what, bool has_nan) {
  return make_error(
      StatusCode::kOutOfRange,
      "{}: expected finite numbers, found {} (`check_for_nan_in_loss_and_grad = false` "
      "continues)",
      what, has_nan ? "NaN" : "Inf");
}

}  // namespace meg::train
