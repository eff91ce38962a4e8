#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "libmeg/parallel/internal/roll_call.h"
#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

/// A group over one of c10d's backends. name: of the group, for its errors. roll_call: of the run,
/// for those of ranks that do not come in time.
std::shared_ptr<ProcessGroup> c10d_process_group(c10::intrusive_ptr<c10d::Backend> backend,
                                                 std::string name, RollCall roll_call);

}  // namespace meg::parallel
