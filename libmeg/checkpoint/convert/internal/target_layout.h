#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/convert/reshard.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_grid.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// One key of a target chunk's model dict.
struct TargetEntry {
  /// The parameter that the tensor belongs to; the embedding for the tied copy. nullptr: extra
  /// state.
  const LogicalParameter* parameter = nullptr;
  /// The extra state that is carried over; nullptr (and no parameter): a key that holds None.
  const ExtraState* extra = nullptr;
  std::string name;  ///< Flat, its layer counted from 0 in the chunk.
  /// The number of the expert in its layer, for an expert's key. `name` has the same number.
  std::optional<int64_t> expert;
};

/// What one pipeline stage of the target holds. Every tensor rank of it holds the same keys.
struct TargetStage {
  /// The source's stage that holds this one's first layer: what is not cut is taken from there.
  int64_t source_stage = 0;
  /// The keys of each virtual stage in the order of the model's state_dict().
  std::vector<std::vector<TargetEntry>> chunks;
};

/// Which parameter goes where, under which name and in which order.
struct TargetLayout {
  RankGrid ranks;  ///< The ranks of each stage, a file for each.
  int64_t pipeline_model_parallel_size = 1;
  int64_t virtual_pipeline_model_parallel_size = 1;
  int64_t experts_per_rank = 0;  ///< Experts per layer; 0: the model has none.
  model::NameFamily family = model::NameFamily::kLegacy;
  bool names_kept = true;         ///< The source's spellings.
  bool pipeline_kept = true;      ///< Stages hold what the source's do, even splits or not.
  int64_t source_vocab_rows = 0;  ///< Rows of the source's embedding, padding included.
  int64_t target_vocab_rows = 0;
  std::optional<int64_t> true_vocab_size;  ///< That of the target, without padding, if it is known.
  std::vector<TargetStage> stages;
  bool has_distributed_optimizer = false;  ///< Its state goes to distrib_optim.pt.
  int64_t data_parallel_size = 1;

  /// Ranks over which a parameter is divided, unless it is replicated.
  int64_t tensor_size(const LogicalParameter& parameter) const;

  /// Length of the cut axis of a parameter's ShardAxes in the target: the source's, except for
  /// the vocabulary. 0 for a replicated parameter.
  int64_t cut_extent(const LogicalParameter& parameter) const;

  /// The shape that one rank of the target holds.
  Result<std::vector<int64_t>> shape(const LogicalParameter& parameter) const;
};

/// Whether a parameter is one of an expert.
bool is_of_expert(const LogicalParameter& parameter);

/// An arg of a checkpoint that is an integer; nullopt if it is absent, None or of another type.
std::optional<int64_t> int_arg(const MegatronCheckpoint& checkpoint, std::string_view name);

/// Whether several tensor ranks of the target share the rows of a query group.
bool shares_query_groups(const MegatronCheckpoint& checkpoint, const TargetLayout& layout);

/// kInvalidArgument where sizes do not divide (says which would), kUnsupported for parameters that
/// have no name in the target's family.
Result<TargetLayout> lay_out_target(const MegatronCheckpoint& checkpoint,
                                    const ReshardOptions& options);

}  // namespace meg::checkpoint
