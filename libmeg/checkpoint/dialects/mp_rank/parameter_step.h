#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/state/opaque.h"

namespace meg::checkpoint {

/// The key of an optimizer's step, with a parameter or in the settings of a group.
inline constexpr const char* kStepKey = "step";

/// The value of a tensor that holds one float32; nullopt for other tensors.
Result<std::optional<float>> read_one_float(const TorchFile& file, const TensorView& tensor);

/// The `step` that torch's own Adam keeps with a parameter (LogicalParameter::other_state): an int,
/// a whole float or a tensor of one float32. kCorruption for anything else.
Result<int64_t> parameter_step(const Opaque& value);

/// The step of the first parameter that has one; nullptr if none has, as with the optimizers that
/// keep it in their groups.
const Opaque* step_of_parameters(const MegatronCheckpoint& checkpoint);

/// Adds that step to `graph` as the groups of a distributed optimizer have it, a float, for a group
/// without one: its bias correction would start again. nullopt if no parameter has a step.
/// Mirrors Megatron-LM megatron/core/optimizer/distrib_optimizer.py: state_dict.
Result<std::optional<PickleId>> add_group_step(const MegatronCheckpoint& checkpoint,
                                               PickleGraph* graph);

}  // namespace meg::checkpoint
