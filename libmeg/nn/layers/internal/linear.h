#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/tensor_parallel.h"

namespace meg::nn {

/// A matrix whose rows are divided over tensor-parallel ranks: each computes its part of the
/// output.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/layers.py: ColumnParallelLinear.
class ColumnParallelLinear {
 public:
  /// weight: [output / ranks, input]; bias: [output / ranks] or undefined.
  ColumnParallelLinear(at::Tensor weight, at::Tensor bias, TensorParallel ranks);

  /// [.., input] -> [.., output / ranks]
  at::Tensor forward(const at::Tensor& input) const;

  /// The same without the bias, which the caller adds.
  at::Tensor forward_without_bias(const at::Tensor& input) const;

  const at::Tensor& weight() const { return weight_; }

  const at::Tensor& bias() const { return bias_; }

 private:
  at::Tensor weight_, bias_;
  TensorParallel ranks_;
};

/// A matrix whose columns are divided over tensor-parallel ranks: each multiplies its part of the
/// input, then their outputs are summed and the bias is added.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/layers.py: RowParallelLinear.
class RowParallelLinear {
 public:
  /// weight: [output, input / ranks]; bias: [output] or undefined.
  RowParallelLinear(at::Tensor weight, at::Tensor bias, TensorParallel ranks);

  /// [.., input / ranks] -> [.., output]
  at::Tensor forward(const at::Tensor& input) const;

  const at::Tensor& weight() const { return weight_; }

  const at::Tensor& bias() const { return bias_; }

 private:
  at::Tensor weight_, bias_;
  TensorParallel ranks_;
};

}  // namespace meg::nn
