#pragma once

#include <string>
#include <string_view>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_metadata.h"

namespace meg::checkpoint {

/// Prefix of the names of the model's own items.
inline constexpr std::string_view kFsdpModelPrefix = "model.";
/// Prefix of the distributed optimizer's settings: for each parameter those of its param_group, one
/// item each.
inline constexpr std::string_view kFsdpSettingPrefix = "optimizer.param_to_group_meta.";

/// A parameter's name without the wrappers of Megatron-FSDP and mixed precision ("module.").
std::string_view without_wrappers(std::string_view name);

/// Whether Megatron-FSDP named the items (--ckpt-format fsdp_dtensor).
bool is_fsdp_dtensor(const DistMetadata& metadata);

/// Renames Megatron-FSDP's items to torch_dist's names. Its names are the keys of a nested state
/// dict, joined: `model.module.NAME` becomes NAME, `optimizer.state.module.module.NAME.exp_avg`
/// becomes `optimizer.state.exp_avg.NAME`; the halves NAME_w and NAME_v of a gated matrix become
/// one tensor, with the gate above. Tensors that are neither weights nor moments (generators,
/// torch's own `step`) become objects: their blobs contain what torch.save writes for such a
/// tensor. folder: starts errors. kUnsupported, with the name: experts, chained optimizers.
/// kCorruption: half a matrix, two items with the same name. Mirrors Megatron-LM's
/// preprocess_fsdp_dtensor_state_dict (core 0.14 to 0.19).
Result<DistMetadata> with_torch_dist_names(DistMetadata metadata, const std::string& folder);

}  // namespace meg::checkpoint
