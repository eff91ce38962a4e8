#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "libmeg/base/progress.h"
#include "libmeg/checkpoint/state/tensor_sink.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

struct TransferOptions {
  /// Bytes that the buffers of all threads together may take (a share of --memory-budget).
  int64_t buffer_bytes = int64_t{256} << 20;
  /// Number of threads; 0: one per processor.
  int workers = 0;
  /// Compares the recorded CRC-32 of everything that is read with the data. Bytes with a recorded
  /// CRC that transfers do not read completely and exactly once are read for this purpose.
  bool check_crcs = true;
  ProgressCallback progress;  ///< bytes: written to sinks.
};

/// Fills the sinks: streams every transfer through bounded buffers, several at once, and gives
/// sinks their CRC-32s. Holes of sparse sources remain holes. Every byte of every sink is written
/// exactly once. kCorruption names a damaged source; kInternal: transfers that contradict
/// themselves, their sources or their sinks.
Status run_transfers(std::span<const TensorTransfer> transfers,
                     std::span<const std::unique_ptr<TensorSink>> sinks,
                     const TransferOptions& options);

}  // namespace meg::checkpoint
