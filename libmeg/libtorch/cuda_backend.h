#pragma once

#include "libmeg/base/status.h"

namespace meg::libtorch {

/// Ok if a GPU can be used, otherwise kInvalidArgument with the reason. If the driver's device file
/// exists, the first call loads the CUDA half of LibTorch: programs are not linked to it, because
/// it costs a second and a gigabyte on machines that cannot use it. LibTorch decides permanently
/// whether it has CUDA when it is first asked, which each backward pass does: so every
/// GptModel::create calls this, and programs that use LibTorch before should.
const Status& load_cuda_backend();

/// Makes LibTorch use, from now on and in the whole process, operators whose results are
/// reproducible bit for bit on the same GPU; an operator without such a form then throws. Must be
/// called before the first operator. Operators on CPUs are always reproducible.
void use_deterministic_algorithms();

}  // namespace meg::libtorch
