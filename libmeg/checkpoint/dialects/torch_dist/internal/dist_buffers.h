#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_state.h"

namespace meg::checkpoint {

/// The flat buffers in which the distributed optimizer of one model-parallel rank keeps its state:
/// all parameters one after another in reverse order, cut into buckets, a buffer for each virtual
/// stage. They are saved as tensors a bucket (dp_reshardable) or in one object
/// (dp_zero_gather_scatter); names of parameters are in neither. See cut_flat_states().
/// prefix: of the names of its tensors and objects, "optimizer.distributed.dp_group_idx_0".
/// kNotFound where the folder has none of it; kUnsupported, by name: other forms. The folder
/// outlives the result.
Result<std::vector<FlatState>> read_dist_buffers(const DistFolder& folder,
                                                 const std::string& prefix);

}  // namespace meg::checkpoint
