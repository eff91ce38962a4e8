#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"
#include "libmeg/checkpoint/transfer/transfer_executor.h"

namespace meg::checkpoint {

/// A torch file to be written.
struct TransferTargetFile {
  std::string path;  ///< Relative to the iteration folder: mp_rank_00/model_optim_rng.pt.
  TorchFileContent content;
  TorchFileLayout layout;
  /// The sink of each storage; ignored for storages with literal content, which have none.
  std::vector<int> sinks;
};

/// The transfers that fill a set of torch files. Every storage without literal content is a sink of
/// its own; sinks are numbered from 0 over all files.
struct TransferPlan {
  std::vector<TransferTargetFile> targets;
  std::vector<TensorTransfer> transfers;

  /// Size of the source tensors that transfers read, and of all target files.
  int64_t source_bytes() const;
  int64_t target_bytes() const;
};

/// Runs a plan: creates the target files under `folder` (which must exist), runs the transfers and
/// completes the files. The caller flushes and renames them, and removes them after an error.
/// Errors: those of run_transfers().
Status execute_transfers(const TransferPlan& plan, const std::string& folder,
                         const TransferOptions& options);

}  // namespace meg::checkpoint
