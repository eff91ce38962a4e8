#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/parallel/launch_environment.h"

namespace meg::parallel {

/// Ranks that compute together, over Gloo on CPUs. Every rank must call the same functions in the
/// same order; a group is used by one thread.
class ProcessGroup {
 public:
  /// Meets the other ranks of `environment`, waiting for them at most `timeout`; collective calls
  /// then wait as long at most.
  /// Errors: kInternal with LibTorch's words if they do not meet in time.
  static Result<std::unique_ptr<ProcessGroup>> connect(const LaunchEnvironment& environment,
                                                       std::chrono::milliseconds timeout);

  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// Replaces tensor, of one shape and type on all ranks, by its element-wise sum over the ranks.
  /// tensor: dense, on the CPU.
  virtual Status all_reduce_sum(at::Tensor tensor) = 0;

  /// Returns when every rank has called it.
  virtual Status barrier() = 0;
};

}  // namespace meg::parallel
