#include "libmeg/nn/layers/internal/transformer_layer.h"

#include <ATen/ATen.h>

#include "libmeg/nn/operators/internal/chosen_rows.h"

namespace meg::nn {

TransformerLayer::TransformerLayer(const model::GptConfig& config, const GptOptions& options,
                                   const ParameterStore& store, int64_t layer)
    : end_of_parameters_(store.end_of("decoder.layers.{}.", layer)),
      input_layernorm_(config, options, store, "decoder.layers.{}.input_layernorm.", layer),
      self_attention_(config, options, store, layer),
      pre_mlp_layernorm_(config, options, store, "decoder.layers.{}.pre_mlp_layernorm.", layer),
      mlp_(config, options, store, layer),
      hidden_dropout_(options.hidden_dropout) {}

HiddenStates TransformerLayer::forward(const HiddenStates& hidden_states,
                                       const ForwardContext& context,
                                       const at::Tensor& rows) const {
  context.use_parameters(end_of_parameters_);
  const HiddenDropout dropout(hidden_dropout_, context);
  const auto [input, normalized] = input_layernorm_.forward(hidden_states, dropout);
  const HiddenStates attended = {.residual = chosen_rows(input, rows),
                                 .branch = self_attention_.forward(normalized, context, rows)};
  const auto [residual, normalized_sum] = pre_mlp_layernorm_.forward(attended, dropout);
  return {.residual = residual, .branch = mlp_.forward(normalized_sum)};
}

}  // namespace meg::nn
