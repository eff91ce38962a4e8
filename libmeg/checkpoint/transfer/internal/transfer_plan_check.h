#pragma once

#include <memory>
#include <span>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/state/tensor_sink.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

/// Compares transfers with their sources and sinks: shapes, boxes and sizes fit each other, every
/// byte of every sink is written exactly once. kInternal names the transfer and what does not fit.
Status check_transfers(std::span<const TensorTransfer> transfers,
                       std::span<const std::unique_ptr<TensorSink>> sinks);

}  // namespace meg::checkpoint
