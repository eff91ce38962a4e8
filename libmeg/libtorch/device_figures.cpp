#include "libmeg/libtorch/device_figures.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <optional>

#ifdef MEG_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace meg::libtorch {
namespace {

at::DeviceIndex index_of(at::Device device) {
  return device.has_index() ? device.index() : at::DeviceIndex{0};
}

#ifdef MEG_HAS_CUDA
/// nullopt for CPUs.
std::optional<cudaDeviceProp> properties_of(at::Device device) {
  cudaDeviceProp properties;
  if (!device.is_cuda()) return std::nullopt;
  if (cudaGetDeviceProperties(&properties, int{index_of(device)}) != cudaSuccess) {
    return std::nullopt;
  }
  return properties;
}
#endif

}  // namespace

std::string device_name([[maybe_unused]] at::Device device) {
#ifdef MEG_HAS_CUDA
  if (const auto properties = properties_of(device)) return properties->name;
#endif
  return {};
}

std::string device_identity([[maybe_unused]] at::Device device) {
  std::string identity;
#ifdef MEG_HAS_CUDA
  const auto properties = properties_of(device);
  if (!properties.has_value()) return {};
  for (size_t i = 0; i < sizeof properties->uuid.bytes; ++i) {
    if (i >= 4 && i <= 10 && i % 2 == 0) identity += '-';
    identity += fmt::format("{:02x}", static_cast<unsigned char>(properties->uuid.bytes[i]));
  }
#endif
  return identity;
}

int64_t peak_resident_bytes() {
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024;
}

void synchronize(at::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(index_of(device));
}

}  // namespace meg::libtorch
