// Compiled for AVX2 and fused multiply-add alone; see CMakeLists.txt.
#include "libmeg/nn/kernels/product_kernels.h"

#ifdef __x86_64__

#include "libmeg/nn/kernels/product_loops.h"

namespace meg::nn {

const ProductKernels kAvx2ProductKernels{product, weighted_sum};

}  // namespace meg::nn

#endif
