#include "libmeg/nn/operators/internal/main_gradient.h"

#include <ATen/ATen.h>

namespace meg::nn {

at::Tensor main_gradient(const at::Tensor& parameter) {
  if (!parameter.defined() || !parameter.is_leaf()) return {};
  const at::Tensor& gradient = parameter.grad();
  const bool is_main = gradient.defined() && gradient.scalar_type() == at::kFloat &&
                       parameter.scalar_type() != at::kFloat;
  return is_main ? gradient : at::Tensor();
}

at::Tensor left_for_autograd(const at::Tensor& parameter, const at::Tensor& gradient) {
  const at::Tensor main = main_gradient(parameter);
  if (!main.defined()) return gradient;
  main.add_(gradient);
  return {};
}

}  // namespace meg::nn
