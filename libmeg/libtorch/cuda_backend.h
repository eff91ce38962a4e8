#pragma once

#include "libmeg/base/status.h"

namespace meg::libtorch {

/// Ok where a GPU can be used, else kInvalidArgument with the reason. The first call brings the
/// CUDA half of LibTorch into the process, where the driver's device file is: programs are not
/// linked to it, as it takes a second and a gigabyte on machines that cannot use it. LibTorch
/// decides for good whether it has CUDA when it is first asked, which each backward pass does: so
/// every GptModel::create calls this, and programs that use LibTorch before should.
const Status& load_cuda_backend();

/// Makes LibTorch choose, from now on and in the whole process, operators that give the same bits
/// again on the same GPU; one that has no such form then throws. To be called before the first of
/// them. Those of CPUs always do.
void use_deterministic_algorithms();

}  // namespace meg::libtorch
