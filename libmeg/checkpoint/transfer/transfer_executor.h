#pragma once

#include <cstdint>
#include <string>

#include "libmeg/base/progress.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

struct TransferOptions {
  /// Bytes of buffers that all threads together may hold (a share of --memory-budget).
  int64_t buffer_bytes = int64_t{256} << 20;
  /// Threads; 0: one a processor.
  int workers = 0;
  /// Compares the CRC-32 of every source storage that is read with what its archive says; where a
  /// transfer does not read a storage wholly and once, it is read for that alone.
  bool check_crcs = true;
  ProgressCallback progress;  ///< bytes: of target storages written.
};

/// Runs a plan: creates the target files under `folder` (which exists), streams every transfer
/// through bounded buffers, several at once, computes the targets' CRC-32s on the way and completes
/// the files. Holes of sparse sources stay holes. Flushing and renaming are the caller's. On error
/// the files made so far are left to the caller to remove; a damaged source is kCorruption and
/// named.
Status execute_transfers(const TransferPlan& plan, const std::string& folder,
                         const TransferOptions& options);

}  // namespace meg::checkpoint
