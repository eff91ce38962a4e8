#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The key of fp32 masters in the shard of a data-parallel rank: see with_optimizer_of_shards().
inline constexpr const char* kShardMasters = "shard_fp32_from_float16_groups";

/// A parameter of a rank as its optimizer counts it: all chunks in order, the tied copy included.
struct OptimizedParameter {
  std::string flat_name;
  const TensorView* weight = nullptr;
  bool is_embedding_or_output = false;  ///< --decoupled-lr applies to these.
};

/// The state that one rank's optimizer keeps for one parameter.
struct RankState {
  ParamGroupKind group = ParamGroupKind::kDecay;
  /// kind ("fp32_param", "exp_avg", ...) and tensor of the weight's shape.
  std::vector<std::pair<std::string, TensorView>> tensors;
  std::vector<std::pair<std::string, PickleId>> other;
};

/// One rank's optimizer, its ids resolved to parameters.
struct RankOptimizer {
  OptimizerLayout layout;         ///< Groups are of this rank's file alone, in its order.
  std::vector<RankState> states;  ///< As the parameters given.
};

/// Describes a parameter of a rank for its optimizer.
OptimizedParameter optimized_parameter(const RankEntry& entry);

/// The kind of each of an optimizer's param_groups, judged by the settings in it.
std::vector<ParamGroupKind> param_group_kinds(const PickleGraph& graph,
                                              std::span<const PickleId> groups);

/// The group to which a parameter belongs. has_decoupled: the run has a group of that kind;
/// qk_norms_decay: --apply-wd-to-qk-layernorm.
ParamGroupKind param_group_for(const OptimizedParameter& parameter, bool has_decoupled,
                               bool qk_norms_decay);

/// The form of an optimizer in a rank's file. kUnsupported if it is not a known one.
Result<OptimizerForm> optimizer_form(const TorchFile& file, PickleId optimizer);

/// The entries of torch's `state` in `inner`, an optimizer's node, by the ids of their parameters;
/// empty if there is no state. kCorruption for keys that are not integers.
Result<std::unordered_map<int64_t, PickleId>> state_entries(const TorchFile& file, PickleId inner);

/// Reads `optimizer` of a rank's file. Ids continue from group to group, and within a group
/// parameters are in named_parameters() order, so they are identified by the group's kind and
/// checked against shapes. kCorruption if ids, counts or shapes do not fit the parameters;
/// kUnsupported for groups that cannot be distinguished.
/// optimizer: its node, if it is one of several instead of the file's `optimizer`.
Result<RankOptimizer> read_rank_optimizer(const TorchFile& file,
                                          std::span<const OptimizedParameter> parameters,
                                          std::optional<PickleId> optimizer = std::nullopt);

}  // namespace meg::checkpoint
