#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libmeg/checkpoint/megatron/megatron_checkpoint.h"

namespace meg {

/// The open files of all ranks of a checkpoint, and what they agree on.
struct RankFiles {
  int64_t tensor_size = 1;
  int64_t pipeline_size = 1;
  double version = 0;  ///< checkpoint_version; 0 where the files have none.
  std::optional<int64_t> iteration;
  std::vector<RankFile> files;  ///< File (t, p) at p * tensor_size + t.
};

/// Opens the rank files of a folder in the mp_rank format (or the one file of a single rank),
/// counted against the parallel sizes in the first file's args, or where it has none against the
/// folders' names. kNotFound: ranks missing, all named. kCorruption: folders of more ranks, or
/// files that disagree about iteration, version or sizes. kUnsupported: other formats, expert
/// parallelism.
Result<RankFiles> open_rank_files(const CheckpointFolder& folder);

}  // namespace meg
