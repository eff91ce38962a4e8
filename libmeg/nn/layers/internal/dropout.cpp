#include "libmeg/nn/layers/internal/dropout.h"

#include <ATen/ATen.h>

namespace meg::nn {

at::Tensor dropout(const at::Tensor& input, double probability, at::Generator& generator) {
  if (probability == 0) return input;
  const double kept = 1 - probability;
  if (input.is_cuda()) return std::get<0>(at::_fused_dropout(input, kept, generator));
  const at::Tensor mask = at::empty_like(input, input.options().requires_grad(false));
  return input * mask.bernoulli_(kept, generator).div_(kept);
}

}  // namespace meg::nn
