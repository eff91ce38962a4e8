#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/transfer/transfer_executor.h"

namespace meg::checkpoint {

struct SaveTorchDistOptions {
  bool keep_optimizer = true;
  /// The optimizer's form: fully reshardable, as --use-distributed-optimizer loads it, or plain.
  bool distributed_optimizer = true;
  /// Refuses a source whose fp32 masters do not belong to its weights.
  bool check_masters = true;
  /// The size in the runs that will load it: with several ranks they chain an optimizer for what
  /// all of them hold alike and one for experts. nullopt: the source's.
  std::optional<int64_t> expert_model_parallel_size = std::nullopt;
  /// Names: kHybrid, or any mcore family for GPT's; without it those of the source's model.
  std::optional<model::NameFamily> names = std::nullopt;
  TransferOptions transfer;
};

struct SavedTorchDist {
  uint64_t bytes = 0;              ///< Size of all items.
  std::vector<std::string> notes;  ///< What was found to differ, one line each.
};

/// One of the data-parallel ranks that hold the same part of a model and share the writing of it.
struct DataParallelPlace {
  int64_t rank = 0, size = 1;
};

/// Writes what one rank of a run holds into `folder`, which exists, in the torch_dist format: its
/// share of the items, in files of its own, and what describes them. The first rank writes
/// common.pt too. part: of the rank's file (MegatronCheckpoint::of_file). of_experts: among the
/// ranks that hold the same experts.
Status write_torch_dist_part(const MegatronCheckpoint& part, const DataParallelPlace& place,
                             const DataParallelPlace& of_experts, const std::string& folder,
                             const SaveTorchDistOptions& options);

/// Makes one checkpoint of what all ranks wrote. ranks: how many. kInternal where their parts are
/// not the whole.
Status complete_torch_dist(const std::string& folder, int64_t ranks);

/// Writes a checkpoint into save_dir in the torch_dist format, as Megatron-LM saves it: layers
/// stacked under Transformer Engine's names, those of a hybrid model each under its own, whole
/// tensors a layer, so that any parallel sizes can load it. A distributed optimizer has the form
/// fully_reshardable (core 0.15 and later). The folder appears by one rename when every file is
/// whole and flushed, the tracker file last. kCorruption where a tied embedding's copy has other
/// weights; kUnsupported, by name: parameters that mcore models lack, rows of checkpoint versions
/// below 2, an optimizer that was not read.
Result<SavedTorchDist> save_torch_dist(const MegatronCheckpoint& checkpoint,
                                       const std::string& save_dir,
                                       const SaveTorchDistOptions& options);

}  // namespace meg::checkpoint
