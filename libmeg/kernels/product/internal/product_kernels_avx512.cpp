// Compiled for AVX-512 alone; see CMakeLists.txt.
#include "libmeg/kernels/product/internal/product_kernels.h"

#ifdef __x86_64__

#include "libmeg/kernels/product/internal/product_loops.h"

namespace meg::kernels {

const ProductKernels kAvx512ProductKernels{product, weighted_sum};

}  // namespace meg::kernels

#endif
