#include "libmeg/nn/layers/internal/transformer_layer.h"

#include <ATen/ATen.h>

#include "libmeg/nn/operators/internal/chosen_rows.h"

namespace meg::nn {
namespace {

std::variant<Mlp, Experts> make_mlp(const model::GptConfig& config, const GptOptions& options,
                                    const ParameterStore& store, int64_t layer) {
  if (config.has_experts(layer)) return Experts(config, options, store, layer);
  return Mlp(config, options, store, "decoder.layers.{}.mlp.", layer, store.tensor_parallel());
}

}  // namespace

TransformerLayer::TransformerLayer(const model::GptConfig& config, const GptOptions& options,
                                   const ParameterStore& store, int64_t layer)
    : end_of_parameters_(store.end_of("decoder.layers.{}.", layer)),
      self_attention_(config, options, store, layer),
      mlp_(make_mlp(config, options, store, layer)),
      parallel_residual_(options.parallel_residual),
      residual_multiplier_(options.residual_multiplier),
      params_dtype_(options.params_dtype),
      hidden_dropout_(options.hidden_dropout) {
  const auto make = [&](bool has, std::optional<Norm>& norm, std::string_view stem) {
    if (has) norm.emplace(config, options, store, stem, layer);
  };
  make(config.pre_layernorm, input_layernorm_, "decoder.layers.{}.input_layernorm.");
  make(config.pre_layernorm, pre_mlp_layernorm_, "decoder.layers.{}.pre_mlp_layernorm.");
  make(config.post_layernorm, post_attention_layernorm_,
       "decoder.layers.{}.self_attention.linear_proj.post_layernorm.");
  make(config.post_layernorm, post_mlp_layernorm_,
       "decoder.layers.{}.mlp.linear_fc2.post_layernorm.");
}

SumAndNormalized TransformerLayer::normalized(const std::optional<Norm>& norm,
                                              const HiddenStates& states,
                                              const HiddenDropout& dropout) const {
  if (norm) return norm->forward(states, dropout);
  const at::Tensor sum = dropout.sum_of(states);
  return {.sum = sum, .normalized = sum.to(params_dtype_)};
}

at::Tensor TransformerLayer::branch_of(at::Tensor output, const std::optional<Norm>& norm) const {
  if (norm) output = norm->forward(output);
  return residual_multiplier_ == 1 ? output : output * residual_multiplier_;
}

at::Tensor TransformerLayer::mlp(const at::Tensor& input, const ForwardContext& context) const {
  const Experts* const experts = std::get_if<Experts>(&mlp_);
  const at::Tensor output =
      experts != nullptr ? experts->forward(input, context) : std::get<Mlp>(mlp_).forward(input);
  return branch_of(output, post_mlp_layernorm_);
}

HiddenStates TransformerLayer::forward(const HiddenStates& hidden_states,
                                       const ForwardContext& context,
                                       const at::Tensor& rows) const {
  context.use_parameters(end_of_parameters_);
  const HiddenDropout dropout(hidden_dropout_, context);
  const auto [input, normalized_input] = normalized(input_layernorm_, hidden_states, dropout);
  const HiddenStates attended = {
      .residual = chosen_rows(input, rows),
      .branch = branch_of(self_attention_.forward(normalized_input, context, rows),
                          post_attention_layernorm_)};
  if (parallel_residual_) {
    const at::Tensor mlp_input = pre_mlp_layernorm_->forward(attended.residual);
    const at::Tensor added = mlp(mlp_input, context);
    return {.residual = attended.residual, .branch = attended.branch + added};
  }
  const auto [residual, normalized_sum] = normalized(pre_mlp_layernorm_, attended, dropout);
  return {.residual = residual, .branch = mlp(normalized_sum, context)};
}

}  // namespace meg::nn
