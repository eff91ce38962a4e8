#pragma once

#include <memory>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// The objects of a Megatron-FSDP folder as a file like torch_dist's common.pt: a dict of them,
/// nested by the dots in their names. Its `optimizer` has param_groups, built from the settings of
/// each parameter, and, if torch's own Adam was used, `state.common_step`. folder: as changed by
/// with_torch_dist_names(). kUnsupported: parameters in other groups than Megatron's rule assigns;
/// groups that cannot be distinguished. kCorruption: parameters that are not in the model, steps
/// that differ.
Result<std::shared_ptr<const TorchFile>> fsdp_common(const DistFolder& folder,
                                                     const model::ParameterTable& table);

}  // namespace meg::checkpoint
