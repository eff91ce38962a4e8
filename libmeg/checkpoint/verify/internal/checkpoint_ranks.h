#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/checkpoint/verify/checkpoint_problem.h"
#include "libmeg/checkpoint/verify/verify_checkpoint.h"
#include "libmeg/model/gpt_config.h"

namespace meg::checkpoint {

/// One rank's file as far as it could be read.
struct RankContent {
  std::string folder_name;
  bool has_distrib_optim = false;  ///< distrib_optim.pt lies beside the file.
  int64_t tensor_rank = 0;
  int64_t pipeline_rank = 0;
  std::shared_ptr<const TorchFile> file;
  std::shared_ptr<const TorchFile> state_file;  ///< distrib_optim.pt; nullptr: none or unreadable.
  /// `file` is composed of files that are among CheckpointRanks::other_files.
  bool is_joined = false;
  bool is_distributed = false;  ///< The optimizer's state was read from distrib_optim.pt.
  bool is_copy = false;         ///< One of CheckpointRanks::copies.
  std::optional<PickleId> args;
  std::optional<RankModel> model;
  /// The parameters of all chunks in order, and the optimizer state of each.
  std::vector<OptimizedParameter> parameters;
  std::optional<RankOptimizer> optimizer;
  /// Gives for every chunk, by flat name, the index among its entries and in `parameters` (SIZE_MAX
  /// for an entry without optimizer state, which is not there).
  std::vector<std::unordered_map<std::string_view, std::pair<size_t, size_t>>> places;

  /// A value at the file's top level.
  std::optional<PickleId> top(std::string_view key) const;
  /// An entry of a chunk of the model; nullptr if there is none.
  const RankEntry* entry(size_t chunk, std::string_view flat_name) const;
  /// The optimizer state of an entry of that chunk; nullptr if there is none.
  const RankState* state(size_t chunk, const RankEntry& entry) const;
};

/// The ranks of a checkpoint, each on its own: nothing has been compared yet.
struct CheckpointRanks {
  explicit CheckpointRanks(model::ParameterTable rules) : table(std::move(rules)) {}

  model::ParameterTable table;
  std::vector<RankContent> ranks;  ///< Those that could be opened, by stage and tensor rank.
  /// What expert-parallel ranks hold alike, of all ranks but the first, which `ranks` have.
  std::vector<RankContent> copies;
  /// distrib_optim.pt, and the files that ranks were joined of.
  std::vector<std::shared_ptr<const TorchFile>> other_files;
  int64_t tensor_size = 1, pipeline_size = 1, expert_size = 1;
  std::optional<model::GptConfig> config;  ///< From the first rank's args.
  double version = 0;
  /// What args say of their processes' order contradicts the folders; it was reported, and explains
  /// names, shapes and copies that do not fit together.
  bool are_exchanged = false;

  /// The first readable rank of a stage, or nullptr.
  const RankContent* of_stage(int64_t stage) const;
  const RankContent* find(int64_t tensor_rank, int64_t stage) const;
  /// Virtual stages of the first rank that has a model; 0 if none has.
  size_t chunks() const;
  /// Whether an entry is the last stage's copy of the embedding.
  bool is_tied_copy(const RankEntry& entry) const;
};

/// Opens every rank file of `folder` and reads its model and optimizer. What cannot be read becomes
/// a problem or a note of `report`. kUnsupported for experts, kInvalidArgument for rules that
/// cannot be parsed.
Result<CheckpointRanks> read_checkpoint_ranks(const CheckpointFolder& folder,
                                              const OpenCheckpointOptions& options,
                                              CheckpointReport* report);

}  // namespace meg::checkpoint
