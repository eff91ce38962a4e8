#pragma once

#include "libmeg/checkpoint/convert/internal/target_file.h"
#include "libmeg/checkpoint/convert/internal/target_layout.h"

namespace meg::checkpoint {

/// The optimizer of one rank of a stage, in the form and with the words of the source: parameters
/// numbered over the groups, in the order in which Megatron's optimizer of that rank meets
/// them. What no parameter owns (grad_scaler, keys that are not known) comes from the source file
/// `reference`.
Result<PickleId> add_optimizer(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                               const TargetStage& stage, int reference, TargetFile* target);

}  // namespace meg::checkpoint
