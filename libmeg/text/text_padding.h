#pragma once

#include <cstddef>

namespace meg::text {

/// Bytes that must be readable after the end of every text that a vectorized reader is given. Their
/// values do not matter. (Vector loads may touch them; simdjson asks the same.)
inline constexpr size_t kTextPadding = 64;

}  // namespace meg::text
