// Compiled for AVX-512 alone; see CMakeLists.txt.
#include "libmeg/nn/kernels/cpu_loops.h"

#ifdef __x86_64__

#include "libmeg/nn/kernels/adam_loops.h"
#include "libmeg/nn/kernels/gelu_loops.h"
#include "libmeg/nn/kernels/softmax_loops.h"

namespace meg::nn {

const CpuLoops kAvx512CpuLoops{maximum,    sum_exp, scaled_exp, bias_gelu, bias_gelu_backward,
                               square_sum, adam};

}  // namespace meg::nn

#endif
