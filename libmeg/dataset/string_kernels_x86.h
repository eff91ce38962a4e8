#pragma once

#include "libmeg/dataset/string_kernels.h"

#ifdef __x86_64__

namespace meg {

extern const StringKernels kAvx2StringKernels;
extern const StringKernels kAvx512StringKernels;

}  // namespace meg

#endif
