#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "libmeg/base/progress.h"
#include "libmeg/checkpoint/state/tensor_sink.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

struct TransferOptions {
  /// Bytes of buffers that all threads together may hold (a share of --memory-budget).
  int64_t buffer_bytes = int64_t{256} << 20;
  /// Threads; 0: one a processor.
  int workers = 0;
  /// Compares the recorded CRC-32 of everything that is read with what is found; where transfers do
  /// not read the bytes that it is of wholly and once, they are read for that alone.
  bool check_crcs = true;
  ProgressCallback progress;  ///< bytes: of sinks written.
};

/// Fills the sinks: streams every transfer through bounded buffers, several at once, and tells
/// sinks their CRC-32s on the way. Holes of sparse sources stay holes. Every byte of every sink is
/// written exactly once. A damaged source is kCorruption and named; transfers that contradict
/// themselves, their sources or their sinks are kInternal.
Status run_transfers(std::span<const TensorTransfer> transfers,
                     std::span<const std::unique_ptr<TensorSink>> sinks,
                     const TransferOptions& options);

}  // namespace meg::checkpoint
