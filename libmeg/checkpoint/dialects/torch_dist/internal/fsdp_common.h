#pragma once

#include <memory>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// What a folder of Megatron-FSDP says beside tensors, as common.pt of torch_dist would: a dict of
/// its objects, nested by the dots of their names. Its `optimizer` has param_groups, made of what
/// is said of each parameter, and where torch's own Adam stepped `state.common_step`. folder: as
/// with_torch_dist_names() made it. kUnsupported: parameters that stand in other groups than
/// Megatron's rule puts them; groups that cannot be told apart. kCorruption: parameters that are
/// not of the model, steps that differ.
Result<std::shared_ptr<const TorchFile>> fsdp_common(const DistFolder& folder,
                                                     const model::ParameterTable& table);

}  // namespace meg::checkpoint
