#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/transfer/transfer_executor.h"

namespace meg::checkpoint {

struct SaveTorchDistOptions {
  bool keep_optimizer = true;
  TransferOptions transfer;
};

struct SavedTorchDist {
  uint64_t bytes = 0;              ///< Of all items.
  std::vector<std::string> notes;  ///< What was found to differ, one line each.
};

/// Writes the files of a checkpoint in the torch_dist format into `folder`, which exists and is
/// empty: see save_torch_dist. The bytes of all items.
Result<uint64_t> write_torch_dist(const MegatronCheckpoint& checkpoint, const std::string& folder,
                                  const SaveTorchDistOptions& options);

/// Writes a checkpoint into save_dir in the torch_dist format, as Megatron-LM saves it: layers
/// stacked under Transformer Engine's names, whole tensors a layer, so that any parallel sizes can
/// load it. The optimizer has the form fully_reshardable (core 0.15 and later). The folder appears
/// by one rename when every file is whole and flushed, the tracker file last.
/// kCorruption where a tied embedding's copy has other weights; kUnsupported, by name: parameters
/// that mcore models lack, rows of checkpoint versions below 2, an optimizer that was not read.
Result<SavedTorchDist> save_torch_dist(const MegatronCheckpoint& checkpoint,
                                       const std::string& save_dir,
                                       const SaveTorchDistOptions& options);

}  // namespace meg::checkpoint
