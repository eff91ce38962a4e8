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

}  // namespace meg::checkpoint
