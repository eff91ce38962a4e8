#pragma once

#include "libmeg/text/json/string_kernels.h"

#ifdef __x86_64__

namespace meg::text {

extern const StringKernels kAvx2StringKernels;
extern const StringKernels kAvx512StringKernels;

}  // namespace meg::text

#endif
