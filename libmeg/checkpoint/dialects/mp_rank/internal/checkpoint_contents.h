#pragma once

#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"

namespace meg::checkpoint {

/// The file in a rank's folder.
inline constexpr std::string_view kModelFile = "model_optim_rng.pt";
/// The two files of the split layout.
inline constexpr std::string_view kSplitModelFile = "model_rng.pt";
inline constexpr std::string_view kSplitOptimFile = "optim.pt";

/// The distributed optimizer's state, beside kModelFile.
inline constexpr std::string_view kDistribOptimFile = "distrib_optim.pt";

/// Recognizes the format of a checkpoint by the contents of found->folder and lists its rank files:
/// sets found->format and found->ranks. False if there is no checkpoint in it.
Result<bool> read_contents(const FolderEntries& entries, CheckpointFolder* found);

}  // namespace meg::checkpoint
