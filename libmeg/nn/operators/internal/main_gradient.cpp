#include "libmeg/nn/operators/internal/main_gradient.h"

#include <ATen/ATen.h>

namespace meg::nn {

at::Tensor main_gradient(const at::Tensor& parameter) {
  if (!parameter.is_leaf()) return {};
  const at::Tensor& gradient = parameter.grad();
  const bool is_main = gradient.defined() && gradient.scalar_type() == at::kFloat &&
                       parameter.scalar_type() != at::kFloat;
  return is_main ? gradient : at::Tensor();
}

}  // namespace meg::nn
