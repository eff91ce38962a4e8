#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "libmeg/base/status.h"

namespace meg::samples {

/// Called between datasets and between pieces of an index, by the thread that works; return true to
/// stop building with kCancelled, leaving nothing unfinished. Empty: never cancelled.
using CacheCancelled = std::function<bool()>;

/// what: is being made.
inline Status check_cancelled(const CacheCancelled& cancelled, std::string_view what) {
  if (!cancelled || !cancelled()) return {};
  return make_error(StatusCode::kCancelled, "{}: interrupted", what);
}

/// Called about 20 times a second, by the thread that waits, while another process builds `cache`
/// (one of its files); return false to stop waiting with kCancelled. Empty: waits silently.
using CacheWaiting = std::function<bool(const std::string& cache)>;

/// What was done to open a cache.
enum class CacheOutcome { kFound, kBuilt, kRebuilt };

}  // namespace meg::samples
