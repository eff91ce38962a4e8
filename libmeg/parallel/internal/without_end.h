#pragma once

#include <chrono>

namespace meg::parallel {

/// A time-out as good as none, and far from what clocks count to.
inline constexpr auto kWithoutEnd = std::chrono::hours(24 * 365);

}  // namespace meg::parallel
