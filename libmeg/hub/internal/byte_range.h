#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace meg::hub {

/// Bytes [first, first + count) of a file.
struct ByteRange {
  uint64_t first = 0, count = 0;
};

/// What a Range header asks for.
struct RangeAnswer {
  int status = 200;  ///< 206 for a part, 416 for one that is outside of the file.
  ByteRange range;   ///< The whole file with 200.
};

/// Reads `bytes=0-99`, `bytes=100-` or `bytes=-100` for a file of this size. Other units, several
/// ranges and nonsense are ignored, as RFC 9110 allows: the answer is the whole file.
RangeAnswer read_range(std::string_view header, uint64_t size);

}  // namespace meg::hub
