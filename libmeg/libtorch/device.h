#pragma once

#include <c10/core/Device.h>

#include <string>

#include "libmeg/base/result.h"

namespace meg::libtorch {

/// name: auto (a GPU where there is one), cpu or cuda. Errors: those of load_cuda_backend() for
/// cuda without a GPU.
Result<at::Device> device_of(const std::string& name);

}  // namespace meg::libtorch
