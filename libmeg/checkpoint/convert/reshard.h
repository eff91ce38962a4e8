#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/transfer/torch_transfer.h"

namespace meg::checkpoint {

struct ReshardOptions {
  int64_t tensor_model_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  int64_t virtual_pipeline_model_parallel_size = 1;  ///< 1: none.
  int64_t expert_model_parallel_size = 1;
  /// Ranks over which each expert is divided: tensor_model_parallel_size or fewer. Unset: the
  /// source's if its other sizes stay, otherwise tensor_model_parallel_size.
  std::optional<int64_t> expert_tensor_parallel_size;
  /// Number of tokens without padding: the table is padded again for the target. If unset, the
  /// table keeps its number of rows, which the target's tensor-parallel size must divide.
  std::optional<int64_t> true_vocab_size;
  std::optional<model::NameFamily> names;  ///< Without: the source's.
  std::optional<DType> params_dtype;       ///< Dtype of the weights; nullopt: the source's.
  bool keep_optimizer = true;
  /// Whether to write the state of --use-distributed-optimizer; without: where the source has it.
  std::optional<bool> distributed_optimizer;
  /// The data-parallel size that its buffers are padded for and that args state; unset: the
  /// source's.
  std::optional<int64_t> data_parallel_size;
  /// Refuses a source whose fp32 masters do not belong to its weights.
  bool check_masters = true;
  /// Checks what is read while planning (generator states to be changed) against its CRC-32.
  bool check_crcs = true;
};

/// A plan with information for the user before it runs.
struct ReshardPlan {
  TransferPlan transfers;
  int64_t source_padded_vocab_size = 0;
  int64_t target_padded_vocab_size = 0;
  /// The vocabulary without padding that the target's table is padded from, if it is known.
  std::optional<int64_t> true_vocab_size;
  int64_t parameter_count = 0;  ///< Parameters of the model, without the tied copy.
  int64_t dropped_padding_rows =
      0;  ///< Rows of the source's table that the target has no place for.
  int64_t added_padding_rows = 0;
  std::vector<std::string> notes;  ///< One line each: what was dropped, reseeded, chosen.
};

/// Plans the files of the target layout from metadata alone (and the checks that need a few bytes).
/// Errors: kInvalidArgument for sizes that do not divide (says which would), kUnsupported by name.
/// Mirrors Megatron-LM tools/checkpoint_util.py, without the side effects on args.
Result<ReshardPlan> plan_reshard(const MegatronCheckpoint& checkpoint,
                                 const ReshardOptions& options);

/// The times of the parts of save_reshard.
struct SaveTimes {
  double copy_seconds = 0;
  double flush_seconds = 0;  ///< To the device, and the renaming.
};

/// The folder that save_reshard makes in save_dir: iter_XXXXXXX or release, as the source's.
std::string reshard_folder_name(const MegatronCheckpoint& checkpoint);

/// kInvalidArgument, which names save_dir, where writing the folder `target` would touch the
/// checkpoint that is read.
Status check_apart(const CheckpointFolder& source, const std::string& target,
                   const std::string& save_dir);

/// The same of what save_reshard makes in save_dir; nor may that be the root of the checkpoint.
Status check_save_dir(const MegatronCheckpoint& checkpoint, const std::string& save_dir);

/// Runs a plan into save_dir: iter_XXXXXXX (or release) appears by one rename when every file is
/// whole and flushed, the tracker file last. An older folder of that name is replaced only then.
Status save_reshard(const MegatronCheckpoint& checkpoint, const ReshardPlan& plan,
                    const std::string& save_dir, const TransferOptions& options,
                    SaveTimes* times = nullptr);

}  // namespace meg::checkpoint
