#include "libmeg/kernels/product/internal/product_kernels.h"

#include "libmeg/kernels/product/internal/product_loops.h"

namespace meg::kernels {

const ProductKernels kPortableProductKernels{product, weighted_sum};

const ProductKernels& product_kernels(InstructionSet set) {
#ifdef __x86_64__
  if (set == InstructionSet::kAvx512) return kAvx512ProductKernels;
  // A set of its own beside AVX2, which processors without it are rare to have.
  static const bool has_fma = __builtin_cpu_supports("fma") != 0;
  if (set == InstructionSet::kAvx2 && has_fma) return kAvx2ProductKernels;
#endif
  static_cast<void>(set);
  return kPortableProductKernels;
}

}  // namespace meg::kernels
