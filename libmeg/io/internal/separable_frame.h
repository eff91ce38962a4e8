#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libmeg/io/byte_stream.h"

namespace meg::io {

/// What begins compressed bytes, seen as something that can be unpacked on its own.
struct SeparableFrame {
  enum class Kind {
    kNone,   ///< Only unpacking tells where it ends, or it is large.
    kWhole,  ///< It is there.
    kMore,   ///< It may be one; more bytes must come to tell.
  };

  Kind kind = Kind::kNone;
  size_t packed = 0;    ///< bytes
  size_t unpacked = 0;  ///< bytes, as it says; at most kMaxFrameBytes
};

inline constexpr size_t kMaxFrameBytes = size_t{16} << 20;

/// The first frame of zstd or member of bgzip, which say their sizes. Members of other gzip files
/// and streams of xz do not.
SeparableFrame separable_frame(Compression how, std::span<const std::byte> bytes);

}  // namespace meg::io
