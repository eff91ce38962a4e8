#include "libmeg/nn/layers/internal/transformer_layer.h"

#include <ATen/ATen.h>

#include "libmeg/nn/operators/internal/chosen_rows.h"

namespace meg::nn {
namespace {

std::variant<Mlp, Experts> make_mlp(const model::GptConfig& config, const GptOptions& options,
                                    const ParameterStore& store, int64_t layer) {
  if (config.num_experts.has_value()) return Experts(config, options, store, layer);
  return Mlp(config, options, store, "decoder.layers.{}.mlp.", layer);
}

}  // namespace

TransformerLayer::TransformerLayer(const model::GptConfig& config, const GptOptions& options,
                                   const ParameterStore& store, int64_t layer)
    : end_of_parameters_(store.end_of("decoder.layers.{}.", layer)),
      input_layernorm_(config, options, store, "decoder.layers.{}.input_layernorm.", layer),
      self_attention_(config, options, store, layer),
      pre_mlp_layernorm_(config, options, store, "decoder.layers.{}.pre_mlp_layernorm.", layer),
      mlp_(make_mlp(config, options, store, layer)),
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
  if (const Experts* const experts = std::get_if<Experts>(&mlp_)) {
    return {.residual = residual, .branch = experts->forward(normalized_sum, context)};
  }
  return {.residual = residual, .branch = std::get<Mlp>(mlp_).forward(normalized_sum)};
}

}  // namespace meg::nn
