#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "libmeg/base/status.h"

namespace meg::parallel {

/// An error if NCCL is not available: this build, or the CUDA half of LibTorch, which must be
/// loaded beforehand, was made without it.
Status check_nccl();

/// c10d's group over NCCL, which waits for no other rank before its first collective. If a
/// collective fails, it does not end the process; RankWatch does. Throws LibTorch's exceptions.
/// Call check_nccl() first.
/// name: the same on all ranks of the group, and different for each group of a rank.
c10::intrusive_ptr<c10d::Backend> nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               const std::string& name, int rank, int size);

}  // namespace meg::parallel
