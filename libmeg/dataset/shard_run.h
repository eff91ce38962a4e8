#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::dataset {

/// What the processes that write the shards of one dataset must have in common, flags and inputs:
/// names and values, the same names in the same order for all. Stored in PREFIX.libmeg.
using ShardRun = std::vector<std::pair<std::string, std::string>>;

/// Reads it from the file; empty if there is no file or it does not contain it. kCorruption if it
/// is not such a file. prefix: may end in ".bin" or ".idx".
Result<ShardRun> read_shard_run(const std::string& prefix);

/// kInvalidArgument, naming the first difference, if shards of one dataset were made by different
/// runs or tokenizers; errors of read_shard_run(). A shard without this information passes.
Status check_same_run(std::span<const std::string> prefixes);

}  // namespace meg::dataset
