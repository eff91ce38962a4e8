#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/inspect/file_summary.h"

namespace meg::checkpoint {

/// One rank's folder.
struct RankSummary {
  std::string name;
  int64_t tensor_rank = 0, pipeline_rank = 0, expert_rank = 0;
  /// Elements of its model's parameters, including the tied copy of the embedding: the number that
  /// Megatron prints when it builds this rank. nullopt if its file could not be opened.
  std::optional<int64_t> parameters;
  uint64_t bytes = 0;  ///< Size of its files.
  /// Totals of its tensors, by TensorGroup.
  std::array<int64_t, 3> tensor_bytes = {};
  std::vector<int> files;  ///< Indices into CheckpointSummary::files.
};

/// All tensors of one group and dtype.
struct TensorShare {
  TensorGroup group = TensorGroup::kModel;
  std::string dtype;
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

/// The contents of a checkpoint, from metadata alone, even if it cannot be opened as a whole model.
struct CheckpointSummary {
  CheckpointFolder folder;
  std::vector<FileSummary> files;
  std::vector<RankSummary> ranks;
  std::vector<std::string> missing_ranks;  ///< Folders that should exist according to the sizes.
  uint64_t bytes = 0;                      ///< Size of all files.

  int64_t tensor_model_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  int64_t virtual_pipeline_model_parallel_size = 1;
  int64_t expert_model_parallel_size = 1;
  /// Ranks over which each expert is divided: tensor_model_parallel_size or another number.
  int64_t expert_tensor_parallel_size = 1;
  bool sizes_are_from_args = false;  ///< False: they are from the folders' names.

  std::optional<model::NameFamily> family;
  std::optional<double> checkpoint_version;
  std::optional<int64_t> iteration;
  std::optional<model::GptConfig> config;  ///< From args.

  OptimizerForm optimizer = OptimizerForm::kNone;
  int64_t optimizer_bytes = 0;
  bool has_scheduler = false, has_rng = false, has_grad_scaler = false;

  std::optional<int64_t> parameters;  ///< Parameters of the whole model, without the tied copy.
  std::optional<int64_t> unpadded_parameters;  ///< The same without the vocabulary's padding rows.
  std::optional<int64_t> padded_vocab_size;
  std::optional<int64_t> true_vocab_size;
  std::vector<TensorShare> shares;  ///< By group, then in the order found.

  /// The whole model; if it could not be opened, whole_status says why.
  std::optional<MegatronCheckpoint> whole;
  Status whole_status;

  /// Args of the first file that has them: that file's index and the node.
  std::optional<std::pair<int, PickleId>> args;
};

struct SummaryOptions {
  OpenCheckpointOptions open;
  std::optional<int64_t>
      true_vocab_size;  ///< In tokens, for checkpoints whose args do not state it.
};

/// Fails only if nothing can be shown, with the error of the first file.
Result<CheckpointSummary> summarize_checkpoint(const CheckpointFolder& folder,
                                               const SummaryOptions& options = {});

}  // namespace meg::checkpoint
