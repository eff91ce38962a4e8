#pragma once

#include <ATen/core/Tensor.h>

#include <variant>

#include "libmeg/nn/layers/internal/attention.h"
#include "libmeg/nn/layers/internal/experts.h"
#include "libmeg/nn/layers/internal/mlp.h"
#include "libmeg/nn/layers/internal/norm.h"

namespace meg::nn {

/// A pre-norm layer: x + dropout(attention(norm(x))), then the same with the MLP.
/// Mirrors Megatron-LM megatron/core/transformer/transformer_layer.py.
class TransformerLayer {
 public:
  /// layer: its number in the whole model, from 0.
  TransformerLayer(const model::GptConfig& config, const GptOptions& options,
                   const ParameterStore& store, int64_t layer);

  /// [b, s, h] -> [b, s, h], or [1, n, h] where rows, [n] of b * s, are chosen.
  HiddenStates forward(const HiddenStates& hidden_states, const ForwardContext& context,
                       const at::Tensor& rows) const;

 private:
  size_t end_of_parameters_;
  Norm input_layernorm_;
  SelfAttention self_attention_;
  Norm pre_mlp_layernorm_;
  std::variant<Mlp, Experts> mlp_;
  double hidden_dropout_;
};

}  // namespace meg::nn
