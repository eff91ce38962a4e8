#include "libmeg/libtorch/device_copy.h"

#include <ATen/ATen.h>

namespace meg::libtorch {

at::Tensor sent_to(at::Device device, const at::Tensor& host) {
  if (device.is_cpu()) return host;
  // Out of page-locked memory, which LibTorch keeps until the copy is done; from other memory the
  // host waits for the copy and all that is queued before it.
  return host.pin_memory().to(device, host.scalar_type(), /*non_blocking=*/true, /*copy=*/true);
}

}  // namespace meg::libtorch
