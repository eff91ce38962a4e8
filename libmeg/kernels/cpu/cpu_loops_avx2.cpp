// Compiled for AVX2 alone; see CMakeLists.txt.
#include "libmeg/kernels/cpu/cpu_loops.h"

#ifdef __x86_64__

#include "libmeg/kernels/internal/gelu_loops.h"
#include "libmeg/kernels/internal/softmax_loops.h"
#include "libmeg/kernels/internal/swiglu_loops.h"
#include "libmeg/kernels/optimizer/internal/adam_loops.h"

namespace meg::kernels {

const CpuLoops kAvx2CpuLoops{maximum, sum_exp,         scaled_exp, bias_gelu, bias_gelu_backward,
                             swiglu,  swiglu_backward, square_sum, adam};

}  // namespace meg::kernels

#endif
