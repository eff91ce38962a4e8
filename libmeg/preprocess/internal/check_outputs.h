#pragma once

#include "libmeg/base/status.h"
#include "libmeg/preprocess/preprocess.h"

namespace meg::preprocess {

/// kInvalidArgument where an input names a file that preprocess() writes, or is a folder or pattern
/// that would find one, whether it is there yet or not: it would be replaced while it is read, or
/// be read by the next process (another shard, one that continues, the same command again).
Status check_outputs(const PreprocessOptions& options);

}  // namespace meg::preprocess
