#include "libmeg/nn/layers/internal/linear.h"

#include <utility>

#include "libmeg/nn/operators/internal/linear_product.h"

namespace meg::nn {

ColumnParallelLinear::ColumnParallelLinear(at::Tensor weight, at::Tensor bias)
    : weight_(std::move(weight)), bias_(std::move(bias)) {}

at::Tensor ColumnParallelLinear::forward(const at::Tensor& input) const {
  return linear_product(input, weight_, bias_);
}

at::Tensor ColumnParallelLinear::forward_without_bias(const at::Tensor& input) const {
  return linear_product(input, weight_);
}

RowParallelLinear::RowParallelLinear(at::Tensor weight, at::Tensor bias)
    : weight_(std::move(weight)), bias_(std::move(bias)) {}

at::Tensor RowParallelLinear::forward(const at::Tensor& input) const {
  return linear_product(input, weight_, bias_);
}

}  // namespace meg::nn
