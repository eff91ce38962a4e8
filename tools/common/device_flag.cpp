#include "tools/common/device_flag.h"

#include "libmeg/nn/cuda_backend.h"

namespace meg::tools {

void declare_device_flag(Flags& flags, std::string& device) {
  flags.value("--device", &device, "DEVICE", "auto: a GPU where there is one")
      .choices({"auto", "cpu", "cuda"});
}

void declare_attention_backend_flag(Flags& flags, std::string& backend) {
  flags.value("--attention-backend", &backend, "BACKEND", "how attention computes")
      .choices({"auto", "flash", "fused", "unfused", "local"});
}

Result<at::Device> device_of(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  const bool has_gpu = nn::load_cuda_backend();
  if (name == "auto") return at::Device(has_gpu ? at::kCUDA : at::kCPU);
  if (has_gpu) return at::Device(at::kCUDA);
  return Status(StatusCode::kInvalidArgument, "--device cuda: no GPU was found");
}

}  // namespace meg::tools
