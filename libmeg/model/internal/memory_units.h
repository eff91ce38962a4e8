#pragma once

#include <cstdint>

namespace meg::model {

/// Bytes in the MB of Megatron's estimates.
inline constexpr double kMegabyte = 1024 * 1024;

/// A count as a factor of a product that may be larger than any integer holds.
constexpr double real(int64_t value) { return static_cast<double>(value); }

}  // namespace meg::model
