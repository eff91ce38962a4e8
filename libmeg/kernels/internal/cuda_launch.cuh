#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

namespace meg::kernels {

/// A thread's number among all of a launch.
__device__ inline int64_t thread_in_grid() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// Blocks of `threads` threads that have one for each of `units`.
inline int64_t blocks_for(int64_t units, unsigned threads) {
  return (units + threads - 1) / threads;
}

/// Queues kKernel on `stream`: `blocks` blocks of `threads` threads, in one dimension each.
/// Returns the CUDA runtime's error code of the launch, also for more blocks than a grid can have.
template <auto kKernel, class... Arguments>
int launch(int64_t blocks, unsigned threads, cudaStream_t stream, Arguments... arguments) {
  if (blocks > std::numeric_limits<int>::max()) return cudaErrorInvalidConfiguration;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kKernel, arguments...);
}

}  // namespace meg::kernels
