#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_state.h"

namespace meg::checkpoint {

/// Reads the flat buffers in which the distributed optimizer of one model-parallel rank keeps its
/// state: all parameters in reverse order, divided into buckets, with a buffer for each virtual
/// stage. They are saved as one tensor per bucket (dp_reshardable) or in one object
/// (dp_zero_gather_scatter), without the names of parameters in either case. See cut_flat_states().
/// prefix: that of the names of its tensors and objects, "optimizer.distributed.dp_group_idx_0".
/// kNotFound if the folder has none of it; kUnsupported for other forms. The folder must outlive
/// the result.
Result<std::vector<FlatState>> read_dist_buffers(const DistFolder& folder,
                                                 const std::string& prefix);

}  // namespace meg::checkpoint
