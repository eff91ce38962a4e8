#pragma once

#include <chrono>

namespace meg::parallel {

/// A timeout that is practically none, and small enough not to overflow clocks.
inline constexpr auto kWithoutEnd = std::chrono::hours(24 * 365);

}  // namespace meg::parallel
