#include <cuda_runtime.h>

namespace meg::emulation {

// It is not in the header: what kernels' object files hold of variables is taken for shared memory.
cudaError_t last_error = cudaSuccess;

}  // namespace meg::emulation
