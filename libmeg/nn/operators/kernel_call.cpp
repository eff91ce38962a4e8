#include "libmeg/nn/operators/kernel_call.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "libmeg/kernels/cuda_device.h"

namespace meg::nn {

kernels::FloatType float_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return kernels::FloatType::kFloat32;
    case at::kHalf:
      return kernels::FloatType::kFloat16;
    case at::kBFloat16:
      return kernels::FloatType::kBFloat16;
    default:
      TORCH_CHECK(false, "expected fp32, fp16 or bf16, found ", tensor.scalar_type());
  }
}

CUstream_st* current_stream(at::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return static_cast<CUstream_st*>(guard.getStream(device).native_handle());
}

void check_launch(int code, const char* kernel) {
  TORCH_CHECK(code != kernels::kBuiltWithoutCuda, kernel,
              ": libmeg was built without CUDA kernels");
  TORCH_CHECK(code == 0, kernel, ": the CUDA runtime refused the launch with error ", code);
}

}  // namespace meg::nn
