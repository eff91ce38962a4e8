#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/megatron/megatron_checkpoint.h"

namespace meg {

/// A parameter of a rank as its optimizer sees it: all chunks in order, the tied copy included.
struct OptimizedParameter {
  std::string flat_name;
  const TensorView* weight = nullptr;
};

/// The state that one rank's optimizer keeps for one parameter.
struct RankState {
  /// kind ("fp32_param", "exp_avg", ...) and tensor of the weight's shape.
  std::vector<std::pair<std::string, TensorView>> tensors;
  std::vector<std::pair<std::string, PickleId>> other;
};

/// One rank's optimizer, its ids resolved to parameters.
struct RankOptimizer {
  OptimizerLayout layout;         ///< Nodes are of this rank's file.
  std::vector<RankState> states;  ///< As the parameters given.
  bool no_decay_group_is_first = false;
};

/// Reads `optimizer` of a rank's file. Ids run on over the groups; a group's parameters follow in
/// named_parameters() order, so they are told by has_weight_decay and checked against shapes.
/// kCorruption where ids, counts or shapes do not fit the parameters; kUnsupported for groups that
/// cannot be told apart.
Result<RankOptimizer> read_rank_optimizer(const TorchFile& file,
                                          std::span<const OptimizedParameter> parameters);

}  // namespace meg
