#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/status.h"

namespace meg::preprocess {

/// kInvalidArgument, by the option's name, unless there are inputs and keys, each key once, and a
/// limit of documents is at least 1.
Status check_input(const std::vector<std::string>& inputs,
                   const std::vector<std::string>& json_keys, std::optional<int64_t> max_documents);

}  // namespace meg::preprocess
