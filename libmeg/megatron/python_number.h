#pragma once

#include <cstdint>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::megatron {

/// Like Python's int(text) in ASCII: a sign, digits with single underscores between them,
/// whitespace around it all. kInvalidArgument if the text is not an integer, kOutOfRange beyond 64
/// bits.
Result<int64_t> python_int(std::string_view text);

/// Like Python's float(text) in ASCII; NaN, infinity and underscores included. kInvalidArgument
/// where the text is not a number or its magnitude is beyond a double's.
Result<double> python_float(std::string_view text);

}  // namespace meg::megatron
