#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/state/logical_parameter.h"

namespace meg::checkpoint {

/// Reads elements of a logical tensor merged and without row padding: [first, first + into.size() /
/// element size) in row-major order of the parameter's ShardAxes::sizes. CRC-32s are not compared.
/// Serves digests, comparisons and statistics; callers that want whole tensors run transfers.
/// Several threads may read at once.
Status read_merged(const LogicalParameter& parameter, const LogicalTensor& tensor, int64_t first,
                   std::span<std::byte> into);

}  // namespace meg::checkpoint
