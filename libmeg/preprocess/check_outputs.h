#pragma once

#include <string>
#include <vector>

#include "libmeg/base/status.h"

namespace meg::preprocess {

/// kInvalidArgument where an input names a file that is to be written, or is a folder or pattern
/// that would find one, whether it is there yet or not: it would be replaced while it is read, or
/// be read by the next process (another shard, one that continues, the same command again).
/// outputs: paths of regular files in one folder.
Status check_outputs(const std::vector<std::string>& inputs, std::vector<std::string> outputs);

}  // namespace meg::preprocess
