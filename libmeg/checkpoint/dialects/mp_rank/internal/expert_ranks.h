#pragma once

#include <memory>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// The files that the expert-parallel ranks of one tensor and pipeline rank saved, as the one file
/// that a single expert-parallel rank would have saved: the first rank's, with the experts of all
/// of them, numbered through the layer. Everything else, which the ranks hold alike (but for the
/// states of random number generators), is the first one's; their optimizers, which are of their
/// own experts, are left out.
/// num_experts: of a layer; files.size() divides it. kCorruption where a rank has not its share.
Result<TorchFile> merge_expert_ranks(const std::vector<std::shared_ptr<const TorchFile>>& files,
                                     int64_t num_experts);

}  // namespace meg::checkpoint
