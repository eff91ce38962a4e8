#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "libmeg/nn/layers/internal/transformer_layer.h"

namespace meg::nn {

/// Consecutive layers of a model and, after the last ones, the final norm.
/// Mirrors Megatron-LM megatron/core/transformer/transformer_block.py.
class TransformerBlock {
 public:
  /// Layers first_layer to first_layer + num_layers - 1 of the whole model.
  TransformerBlock(const model::GptConfig& config, const GptOptions& options,
                   const ParameterStore& store, int64_t first_layer, int64_t num_layers,
                   bool has_final_norm);

  /// [b, s, h] -> [b, s, h]
  at::Tensor forward(at::Tensor hidden_states, const ForwardContext& context) const;

 private:
  HiddenStates forward_layers(HiddenStates hidden_states, const ForwardContext& context,
                              size_t begin, size_t end) const;
  HiddenStates recompute_layers(at::Tensor hidden_states, const ForwardContext& context) const;

  std::vector<TransformerLayer> layers_;
  std::optional<Norm> final_layernorm_;
  size_t
      end_of_parameters_;  ///< After those of the final norm and of an output layer that follows.
  model::RecomputeGranularity recompute_granularity_;
  RecomputeMethod recompute_method_;
  size_t recompute_num_layers_;
  double hidden_dropout_;
};

}  // namespace meg::nn
