#include "libmeg/nn/kernels/cpu_loops.h"

#include "libmeg/nn/kernels/adam_loops.h"
#include "libmeg/nn/kernels/gelu_loops.h"
#include "libmeg/nn/kernels/softmax_loops.h"

namespace meg::nn {

const CpuLoops kPortableCpuLoops{maximum,    sum_exp, scaled_exp, bias_gelu, bias_gelu_backward,
                                 square_sum, adam};

const CpuLoops& cpu_loops(InstructionSet set) {
#ifdef __x86_64__
  if (set == InstructionSet::kAvx512) return kAvx512CpuLoops;
  if (set == InstructionSet::kAvx2) return kAvx2CpuLoops;
#endif
  static_cast<void>(set);
  return kPortableCpuLoops;
}

}  // namespace meg::nn
