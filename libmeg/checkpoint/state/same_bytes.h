#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// The CRC-32 of a source's bytes if its container recorded one for exactly these bytes.
std::optional<uint32_t> recorded_crc_of_all(const TensorSource& source);

/// Whether two sources hold the same bytes. Compares the recorded CRC-32s if both cover exactly
/// these bytes, and otherwise reads them.
Result<bool> same_bytes(const TensorSource& a, const TensorSource& b);

/// The same, but without recorded CRC-32s reads a few elements at both ends and in the middle only,
/// which is enough to detect elements at the wrong place.
Result<bool> seem_same_bytes(const TensorSource& a, const TensorSource& b);

}  // namespace meg::checkpoint
