#pragma once

#include <cstddef>
#include <span>

#include "libmeg/base/dtype.h"
#include "libmeg/base/status.h"

namespace meg {

/// Converts elements between float16, bfloat16 and float32 (and copies if both have the same type):
/// widening is exact, narrowing rounds to nearest even, as torch's `.to(dtype)` does; NaN stays
/// NaN. `from` and `to` hold the same number of elements and do not overlap. kUnsupported for other
/// types.
Status convert_floats(DType from_dtype, std::span<const std::byte> from, DType to_dtype,
                      std::span<std::byte> to);

}  // namespace meg
