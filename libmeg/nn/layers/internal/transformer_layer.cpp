#include "libmeg/nn/layers/internal/transformer_layer.h"

#include <ATen/ATen.h>

#include "libmeg/nn/layers/internal/dropout.h"
#include "libmeg/nn/operators/internal/chosen_rows.h"

namespace meg::nn {

TransformerLayer::TransformerLayer(const model::GptConfig& config, const GptOptions& options,
                                   const ParameterStore& store, int64_t layer)
    : input_layernorm_(config, options, store, "decoder.layers.{}.input_layernorm.", layer),
      self_attention_(config, options, store, layer),
      pre_mlp_layernorm_(config, options, store, "decoder.layers.{}.pre_mlp_layernorm.", layer),
      mlp_(config, options, store, layer),
      hidden_dropout_(options.hidden_dropout) {}

at::Tensor TransformerLayer::forward(const at::Tensor& hidden_states, const ForwardContext& context,
                                     const at::Tensor& rows) const {
  const at::Tensor attended =
      dropout_add(self_attention_.forward(input_layernorm_.forward(hidden_states), context, rows),
                  chosen_rows(hidden_states, rows), context);
  return dropout_add(mlp_.forward(pre_mlp_layernorm_.forward(attended)), attended, context);
}

at::Tensor TransformerLayer::dropout_add(const at::Tensor& output, const at::Tensor& residual,
                                         const ForwardContext& context) const {
  if (!context.training) return residual + output;
  return residual + dropout(output.to(residual.scalar_type()), hidden_dropout_,
                            context.random->generator(context.hidden_stream));
}

}  // namespace meg::nn
