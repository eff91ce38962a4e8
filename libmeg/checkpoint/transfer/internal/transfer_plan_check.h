#pragma once

#include <memory>
#include <span>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/state/tensor_sink.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

/// Checks that the shapes, boxes and sizes of transfers, sources and sinks agree and that every
/// byte of every sink is written exactly once. kInternal names the transfer and the contradiction.
Status check_transfers(std::span<const TensorTransfer> transfers,
                       std::span<const std::unique_ptr<TensorSink>> sinks);

}  // namespace meg::checkpoint
