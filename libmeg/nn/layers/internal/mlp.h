#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "libmeg/nn/layers/internal/linear.h"
#include "libmeg/nn/parameter_store.h"

namespace meg::nn {

/// The two matrices of a layer with GELU or squared ReLU between them, or with a gated unit: an
/// activation of the first half, times the second half. Mirrors Megatron-LM
/// megatron/core/transformer/mlp.py.
class Mlp {
 public:
  /// stem: what the names of its parameters begin with, such as "decoder.layers.{}.mlp.". ranks:
  /// those whose parts are put together around it; of an expert, its callers do that.
  Mlp(const model::GptConfig& config, const GptOptions& options, const ParameterStore& store,
      std::string_view stem, int64_t layer, const TensorParallel& ranks);

  /// [b, s, h] -> [b, s, h]
  at::Tensor forward(const at::Tensor& hidden_states) const;

 private:
  bool suits_gelu_epilogue(const at::Tensor& hidden_states) const;
  bool suits_epilogues(const at::Tensor& hidden_states) const;

  at::Tensor gelu(const at::Tensor& x) const;

  /// [b, s, h] -> [b, s, ffn]
  at::Tensor activate(const at::Tensor& hidden_states) const;

  ColumnParallelLinear linear_fc1_;
  RowParallelLinear linear_fc2_;
  bool is_gated_;
  bool quick_geglu_;
  bool geglu_;
  bool squared_relu_;
  GeluForm gelu_;
  bool is_whole_;  ///< Not divided over other ranks.
};

}  // namespace meg::nn
