#include "libmeg/libtorch/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "libmeg/libtorch/cuda_backend.h"
#include "libmeg/libtorch/torch_guard.h"

namespace meg::libtorch {

namespace {

Result<at::Device> gpu_of(int local_rank) {
  const c10::impl::VirtualGuardImpl gpus(at::kCUDA);
  const int count = gpus.deviceCount();
  const int number = count == 1 ? 0 : local_rank;
  if (number >= count) {
    return make_error(
        StatusCode::kInvalidArgument,
        "device: expected at most {} ranks on this machine, one for each of its GPUs, "
        "found local rank {}",
        count, local_rank);
  }
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(number));
  gpus.setDevice(device);
  return device;
}

}  // namespace

Result<at::Device> device_of(const std::string& name, int local_rank) {
  if (name == "cpu") return at::Device(at::kCPU);
  const Status& gpu = load_cuda_backend();
  if (gpu.ok()) {
    Result<at::Device> device = at::Device(at::kCPU);
    MEG_RETURN_IF_ERROR(torch_guard([&] {
      device = gpu_of(local_rank);
      return device.status();
    }));
    return device;
  }
  if (name == "auto") return at::Device(at::kCPU);
  return gpu;
}

}  // namespace meg::libtorch
