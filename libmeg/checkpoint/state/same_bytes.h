#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// The CRC-32 of a source's bytes, where its container recorded that of just them.
std::optional<uint32_t> recorded_crc_of_all(const TensorSource& source);

/// Whether two sources hold the same bytes: by the CRC-32s that their containers recorded where
/// both are of just them, otherwise by reading them.
Result<bool> same_bytes(const TensorSource& a, const TensorSource& b);

}  // namespace meg::checkpoint
