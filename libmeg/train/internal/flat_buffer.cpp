#include "libmeg/train/internal/flat_buffer.h"

#include <ATen/ATen.h>

namespace meg::train {
namespace {

// Every view begins where vector loads like it.
constexpr int64_t kAlignment = 64;  // elements

int64_t padded(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

FlatBuffer::FlatBuffer(std::span<const nn::GptParameter> parameters, at::ScalarType dtype) {
  int64_t elements = 0;
  for (const nn::GptParameter& parameter : parameters) {
    elements += padded(parameter.tensor.numel());
  }
  const auto options = at::TensorOptions().dtype(dtype).device(
      parameters.empty() ? at::Device(at::kCPU) : parameters[0].tensor.device());
  flat_ = at::zeros({elements}, options);
  int64_t offset = 0;
  for (const nn::GptParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    views_.push_back(flat_.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += padded(tensor.numel());
  }
}

}  // namespace meg::train
