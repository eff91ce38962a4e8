#include "libmeg/libtorch/device.h"

#include "libmeg/libtorch/cuda_backend.h"

namespace meg::libtorch {

Result<at::Device> device_of(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  const Status& gpu = load_cuda_backend();
  if (name == "auto") return at::Device(gpu.ok() ? at::kCUDA : at::kCPU);
  MEG_RETURN_IF_ERROR(gpu);
  return at::Device(at::kCUDA);
}

}  // namespace meg::libtorch
