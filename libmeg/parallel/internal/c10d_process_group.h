#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "libmeg/parallel/internal/nccl_transport.h"
#include "libmeg/parallel/internal/roll_call.h"
#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

/// A group over c10d's backends: Gloo for tensors of CPUs and barriers, NCCL for those of GPUs.
/// nccl: null for ranks without GPUs. name: of the group, for errors. roll_call: the run's, for
/// errors about ranks that do not arrive in time.
std::shared_ptr<ProcessGroup> c10d_process_group(c10::intrusive_ptr<c10d::Backend> gloo,
                                                 std::shared_ptr<NcclTransport> nccl,
                                                 std::string name, RollCall roll_call);

}  // namespace meg::parallel
