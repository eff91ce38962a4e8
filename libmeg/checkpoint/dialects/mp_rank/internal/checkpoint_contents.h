#pragma once

#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"

namespace meg::checkpoint {

/// The file of a rank's folder.
inline constexpr std::string_view kModelFile = "model_optim_rng.pt";
/// The two of the split layout.
inline constexpr std::string_view kSplitModelFile = "model_rng.pt";
inline constexpr std::string_view kSplitOptimFile = "optim.pt";

/// Beside it: the distributed optimizer's state.
inline constexpr std::string_view kDistribOptimFile = "distrib_optim.pt";

/// Tells the format of a checkpoint from what lies in its folder and lists its rank files: sets
/// found->format and found->ranks, reading from found->folder. False where it holds none.
Result<bool> read_contents(const FolderEntries& entries, CheckpointFolder* found);

}  // namespace meg::checkpoint
