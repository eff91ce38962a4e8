#pragma once

#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/training/training_tree.h"

namespace meg::checkpoint {

/// A parameter in its optimizer.
struct OptimizerMember {
  const TrainingParameter* parameter = nullptr;
  bool weight_decay = false;
  bool is_embedding_or_output = false;  ///< What OptimizerState::decoupled is for.
};

/// The value under "optimizer". members: in named_parameters() order. is_core: with the keys and
/// the order of groups of core_v0.12.3 instead of 6ef5bdc's. kInvalidArgument where some parameters
/// have moments (or, if 16-bit, masters) and others do not.
/// Mirrors Megatron-LM megatron/core/optimizer: get_param_groups, FP32Optimizer,
/// Float16OptimizerWithFloat16Params.
Result<PickleId> add_optimizer(const OptimizerState& state,
                               const std::vector<OptimizerMember>& members, bool is_core,
                               TrainingTree* tree);

}  // namespace meg::checkpoint
