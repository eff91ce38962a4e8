#pragma once

#include <cuda_runtime.h>

namespace meg::nn {

/// Queues kKernel on `stream`: `blocks` blocks of `threads` threads, in one dimension each.
/// Returns the CUDA runtime's error code of the launch.
template <auto kKernel, class... Arguments>
int launch(unsigned blocks, unsigned threads, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kKernel, arguments...);
}

}  // namespace meg::nn
