#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::dataset {

/// What the processes that write the shards of one dataset must have in common, flags and inputs:
/// names and values, the same names in the same order for all. It stands in PREFIX.libmeg.
using ShardRun = std::vector<std::pair<std::string, std::string>>;

/// What the file says; empty where there is none or it does not say. kCorruption where it is not
/// such a file. prefix: may end in ".bin" or ".idx".
Result<ShardRun> read_shard_run(const std::string& prefix);

/// kInvalidArgument naming the first difference where shards of one dataset were not made by the
/// same run, or of another tokenizer; read_shard_run's errors. A shard that says nothing passes.
Status check_same_run(std::span<const std::string> prefixes);

}  // namespace meg::dataset
