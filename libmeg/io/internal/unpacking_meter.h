#pragma once

#include <cstdint>
#include <string>

#include "libmeg/base/status.h"

namespace meg::io {

/// Bytes of one file that went into and came out of decompressing.
struct UnpackingMeter {
  int64_t packed = 0;
  int64_t unpacked = 0;

  /// From this many decompressed bytes on the ratio is looked at. What is smaller fits memory
  /// anyway, and a short file of equal letters is no attack.
  static constexpr int64_t kMinBombBytes = int64_t{64} << 20;

  /// kResourceExhausted if it looks like a decompression bomb.
  Status check(const std::string& name, int64_t max_ratio) const {
    // Divided, not multiplied: a ratio that the caller chose must not overflow.
    if (unpacked < kMinBombBytes || unpacked / max_ratio <= packed) return Status();
    return make_error(StatusCode::kResourceExhausted,
                      "{}: {} compressed bytes gave {} so far: expected at most {} per byte", name,
                      packed, unpacked, max_ratio);
  }
};

}  // namespace meg::io
