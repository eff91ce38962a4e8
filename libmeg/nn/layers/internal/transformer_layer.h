#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <variant>

#include "libmeg/nn/layers/internal/attention.h"
#include "libmeg/nn/layers/internal/experts.h"
#include "libmeg/nn/layers/internal/mlp.h"
#include "libmeg/nn/layers/internal/norm.h"

namespace meg::nn {

/// A pre-norm layer: x + dropout(attention(norm(x))), then the same with the MLP; or with norms of
/// what attention and MLP put out, or with both of them beside each other.
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
  /// The sum of the states, and what attention or MLP take in of it.
  SumAndNormalized normalized(const std::optional<Norm>& norm, const HiddenStates& states,
                              const HiddenDropout& dropout) const;
  /// What is added to the residual for the output of attention or MLP.
  at::Tensor branch_of(at::Tensor output, const std::optional<Norm>& norm) const;
  at::Tensor mlp(const at::Tensor& input, const ForwardContext& context) const;

  size_t end_of_parameters_;
  std::optional<Norm> input_layernorm_, pre_mlp_layernorm_;            ///< pre_layernorm
  std::optional<Norm> post_attention_layernorm_, post_mlp_layernorm_;  ///< post_layernorm
  SelfAttention self_attention_;
  std::variant<Mlp, Experts> mlp_;
  bool parallel_residual_;
  double residual_multiplier_;
  at::ScalarType params_dtype_;
  double hidden_dropout_;
};

}  // namespace meg::nn
