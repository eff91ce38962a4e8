#pragma once

#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/training/training_tree.h"

namespace meg::checkpoint {

/// A parameter that an optimizer updates.
struct OptimizerMember {
  const TrainingParameter* parameter = nullptr;
  bool weight_decay = false;
  bool is_embedding_or_output = false;  ///< OptimizerState::decoupled applies to these.
};

/// How an optimizer lists its param groups.
struct ParamGroupRules {
  bool is_core = true;  ///< With core_v0.12.3's keys, in its order, instead of 6ef5bdc's.
  bool is_expert_parallel = false;  ///< Whether the members are experts of expert-parallel ranks.
  bool keeps_empty = false;  ///< Also lists groups all of whose parameters belong to other ranks.
};

/// The value under "optimizer". members: in named_parameters() order. kInvalidArgument if some
/// parameters have moments (or, if 16-bit, masters) and others do not. Mirrors Megatron-LM
/// megatron/core/optimizer: get_param_groups, FP32Optimizer, Float16OptimizerWithFloat16Params.
Result<PickleId> add_optimizer(const OptimizerState& state,
                               const std::vector<OptimizerMember>& members,
                               const ParamGroupRules& rules, TrainingTree* tree);

}  // namespace meg::checkpoint
