#pragma once

#include <memory>
#include <vector>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// Sources of one type, at least one, one behind the other.
std::shared_ptr<const TensorSource> concatenated(
    std::vector<std::shared_ptr<const TensorSource>> sources);

}  // namespace meg::checkpoint
