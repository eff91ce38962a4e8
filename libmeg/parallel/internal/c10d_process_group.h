#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

/// A group over one of c10d's backends. name: of the group, for its errors.
std::shared_ptr<ProcessGroup> c10d_process_group(c10::intrusive_ptr<c10d::Backend> backend,
                                                 std::string name);

}  // namespace meg::parallel
