#include "libmeg/nn/layers/internal/linear.h"

#include <ATen/ATen.h>

#include <utility>

#include "libmeg/nn/operators/internal/exchange.h"
#include "libmeg/nn/operators/internal/linear_product.h"

namespace meg::nn {

ColumnParallelLinear::ColumnParallelLinear(at::Tensor weight, at::Tensor bias, TensorParallel ranks)
    : weight_(std::move(weight)), bias_(std::move(bias)), ranks_(std::move(ranks)) {}

at::Tensor ColumnParallelLinear::forward(const at::Tensor& input) const {
  return linear_product(enter_matrix(input, ranks_), weight_, bias_);
}

at::Tensor ColumnParallelLinear::forward_without_bias(const at::Tensor& input) const {
  return linear_product(enter_matrix(input, ranks_), weight_);
}

RowParallelLinear::RowParallelLinear(at::Tensor weight, at::Tensor bias, TensorParallel ranks)
    : weight_(std::move(weight)), bias_(std::move(bias)), ranks_(std::move(ranks)) {}

at::Tensor RowParallelLinear::forward(const at::Tensor& input) const {
  if (ranks_.size() == 1) return linear_product(input, weight_, bias_);
  const at::Tensor output = leave_matrix(linear_product(input, weight_), ranks_);
  return bias_.defined() ? output + bias_ : output;
}

}  // namespace meg::nn
