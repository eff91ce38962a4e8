#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_config.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

struct MegatronCheckpoint::State {
  explicit State(model::ParameterTable rules) : table(std::move(rules)) {}

  /// A field of the first file's args.
  std::optional<PickleId> find_arg(std::string_view name) const;

  CheckpointFolder folder;
  model::GptConfig config;
  model::ParameterTable table;
  int64_t tensor_size = 1, pipeline_size = 1, virtual_size = 1, expert_size = 1;
  model::NameFamily family = model::NameFamily::kLegacy;
  bool norm_spelling_is_short = false;
  double version = 0;
  std::optional<int64_t> iteration;
  std::optional<model::HybridPattern> hybrid;  ///< Taken from args if they describe a hybrid model.
  std::vector<RankFile> files;
  std::vector<std::string> notes;
  std::vector<LogicalParameter> parameters;
  std::optional<LogicalParameter> tied_copy;
  std::vector<ExtraState> extra_states;
  OptimizerLayout optimizer;
};

/// Merges the files of a checkpoint's ranks into one whole model, for MegatronCheckpoint::open.
class CheckpointReader {
 public:
  CheckpointReader(const CheckpointFolder& folder, const OpenCheckpointOptions& options,
                   model::ParameterTable table);

  Result<MegatronCheckpoint> read();

  /// The same for files that are already open: of all ranks, or of one of several, in which case
  /// the model consists of that rank's part.
  Result<MegatronCheckpoint> read(RankFiles ranks);

 private:
  /// A chunk of a stage, and the part of it that every tensor rank holds.
  struct Chunk {
    int64_t stage = 0, chunk = 0;
    int64_t first_layer = 0;
    std::vector<std::vector<RankEntry>> by_rank;  ///< Entries of each tensor rank, in one order.
    std::vector<int> state_index;  ///< Each entry's index in its optimizer; -1: extra state.
  };

  Status read_config();
  Result<std::vector<RankModel>> read_models() const;
  Status make_chunks(std::vector<RankModel> models);
  Status align_ranks(Chunk* chunk) const;
  Status number_layers();
  Status check_experts(const Chunk& chunk) const;
  Status read_family();
  Status read_optimizers();
  void merge_optimizer_layouts();
  Status check_volume() const;
  Status add_chunk(const Chunk& chunk);
  /// Numbers of tensor ranks and stages whose files are there.
  int64_t tensor_ranks() const;
  int64_t stages() const;
  size_t file_at(int64_t stage, int64_t tensor_rank) const;
  /// Ranks that split a parameter.
  int64_t tensor_size_of(const model::ParameterMatch& match) const;
  Status number_layers_of_part();
  /// tensor_size: ranks that split the parameter.
  void add_shard(const LogicalParameter& parameter, int64_t tensor_size, int64_t stage, size_t rank,
                 const TensorView& view, LogicalTensor* tensor) const;
  Status add_parameter(const Chunk& chunk, size_t entry, LogicalParameter* parameter) const;
  Status add_state(const Chunk& chunk, size_t entry, LogicalParameter* parameter) const;
  void add_extra_state(const Chunk& chunk, size_t entry);
  /// The path of a rank's file.
  const std::string& path(int64_t stage, int64_t tensor_rank) const;
  bool is_tied_copy(const model::ParameterMatch& match) const;

  const OpenCheckpointOptions& options_;
  std::unique_ptr<MegatronCheckpoint::State> state_;
  bool is_part_ = false;            ///< Whether the files are those of one of several ranks.
  int64_t expert_tensor_size_ = 1;  ///< Of a part.
  RankShapes shapes_, expert_shapes_;
  /// These are in the model's order: chunk by chunk, and within each chunk stage by stage.
  std::vector<Chunk> chunks_;
  /// One for each file.
  std::vector<RankOptimizer> optimizers_;
};

}  // namespace meg::checkpoint
