#include "libmeg/kernels/cuda_device.h"

#include <cuda_runtime_api.h>

namespace meg::kernels {

const char* cuda_problem() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return devices > 0 ? nullptr : cudaGetErrorString(cudaErrorNoDevice);
}

}  // namespace meg::kernels
