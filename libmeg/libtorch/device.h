#pragma once

#include <c10/core/Device.h>

#include <string>

#include "libmeg/base/result.h"

namespace meg::libtorch {

/// name: auto (a GPU if there is one), cpu or cuda. local_rank: index among the processes of this
/// machine, each of which uses a separate GPU: the one with this index, or the only one that its
/// launcher makes visible. The GPU becomes the calling thread's current one. Errors: those of
/// load_cuda_backend() for cuda without a GPU; kInvalidArgument where there are fewer GPUs than
/// that.
Result<at::Device> device_of(const std::string& name, int local_rank = 0);

}  // namespace meg::libtorch
