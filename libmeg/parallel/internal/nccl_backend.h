#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "libmeg/base/status.h"

namespace meg::parallel {

/// Why there is no NCCL here: the build knows none, or the CUDA half of LibTorch, which is to be
/// loaded before, has none.
Status check_nccl();

/// c10d's group over NCCL, which waits for no other rank before its first collective. It does not
/// end the process where one fails: RankWatch does. LibTorch's exceptions fly. Only after
/// check_nccl().
/// name: as all its ranks call it, and no two groups of one rank alike.
c10::intrusive_ptr<c10d::Backend> nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               const std::string& name, int rank, int size);

}  // namespace meg::parallel
