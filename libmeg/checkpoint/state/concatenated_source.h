#pragma once

#include <memory>
#include <vector>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// The elements of several sources, one after another. sources: at least one, all of one dtype.
std::shared_ptr<const TensorSource> concatenated(
    std::vector<std::shared_ptr<const TensorSource>> sources);

}  // namespace meg::checkpoint
