#include "libmeg/kernels/cpu/cpu_loops.h"

#include "libmeg/kernels/internal/gelu_loops.h"
#include "libmeg/kernels/internal/softmax_loops.h"
#include "libmeg/kernels/internal/swiglu_loops.h"
#include "libmeg/kernels/optimizer/internal/adam_loops.h"

namespace meg::kernels {

const CpuLoops kPortableCpuLoops{
    maximum, sum_exp,         scaled_exp, bias_gelu, bias_gelu_backward,
    swiglu,  swiglu_backward, square_sum, adam};

const CpuLoops& cpu_loops(InstructionSet set) {
#ifdef __x86_64__
  if (set == InstructionSet::kAvx512) return kAvx512CpuLoops;
  if (set == InstructionSet::kAvx2) return kAvx2CpuLoops;
#endif
  static_cast<void>(set);
  return kPortableCpuLoops;
}

}  // namespace meg::kernels
