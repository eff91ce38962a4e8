#pragma once

#include <functional>
#include <string_view>

#include "libmeg/base/status.h"

namespace meg::samples {

/// Asked between datasets and between pieces of an index, by whatever thread is at work; true ends
/// the building with kCancelled, and nothing unfinished stays. Empty: never.
using CacheCancelled = std::function<bool()>;

/// what: is being made.
inline Status check_cancelled(const CacheCancelled& cancelled, std::string_view what) {
  if (!cancelled || !cancelled()) return {};
  return make_error(StatusCode::kCancelled, "{}: interrupted", what);
}

}  // namespace meg::samples
