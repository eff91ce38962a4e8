#include "libmeg/nn/layers/internal/transformer_block.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "libmeg/nn/operators/internal/recompute.h"

namespace meg::nn {

TransformerBlock::TransformerBlock(const model::GptConfig& config, const GptOptions& options,
                                   const ParameterStore& store, int64_t first_layer,
                                   int64_t num_layers, bool has_final_norm)
    : end_of_parameters_(store.all().size()),
      recompute_granularity_(options.recompute_granularity),
      recompute_method_(options.recompute_method),
      recompute_num_layers_(static_cast<size_t>(options.recompute_num_layers)),
      hidden_dropout_(options.hidden_dropout) {
  for (int64_t i = 0; i < num_layers; ++i) {
    layers_.emplace_back(config, options, store, first_layer + i);
  }
  if (has_final_norm) final_layernorm_.emplace(config, options, store, "decoder.final_layernorm.");
}

at::Tensor TransformerBlock::forward(at::Tensor hidden_states,
                                     const ForwardContext& context) const {
  const bool recomputes =
      recompute_granularity_ == model::RecomputeGranularity::kFull && context.training;
  const HiddenStates states =
      recomputes ? recompute_layers(std::move(hidden_states), context)
                 : forward_layers({.residual = std::move(hidden_states), .branch = {}}, context, 0,
                                  layers_.size());
  const HiddenDropout dropout(hidden_dropout_, context);
  if (!final_layernorm_) return dropout.sum_of(states);
  context.use_parameters(end_of_parameters_);
  return final_layernorm_->forward(states, dropout).normalized;
}

HiddenStates TransformerBlock::forward_layers(HiddenStates hidden_states,
                                              const ForwardContext& context, size_t begin,
                                              size_t end) const {
  for (size_t i = begin; i < end; ++i) {
    // Rows that nobody asks for are dropped in the last layer alone: layers before it attend to
    // them.
    const bool is_last = i + 1 == layers_.size();
    hidden_states =
        layers_[i].forward(hidden_states, context, is_last ? context.rows : at::Tensor());
  }
  return hidden_states;
}

HiddenStates TransformerBlock::recompute_layers(at::Tensor hidden_states,
                                                const ForwardContext& context) const {
  // uniform: all layers, in segments of recompute_num_layers. block: the first
  // recompute_num_layers, each for itself; the others keep what they need.
  const bool is_uniform = recompute_method_ == RecomputeMethod::kUniform;
  const size_t step = is_uniform ? recompute_num_layers_ : 1;
  const size_t last = is_uniform ? layers_.size() : std::min(recompute_num_layers_, layers_.size());
  size_t begin = 0;
  for (; begin < last; begin = std::min(begin + step, layers_.size())) {
    const size_t end = std::min(begin + step, layers_.size());
    const auto segment = [this, context, begin, end](const std::vector<at::Tensor>& inputs) {
      const HiddenStates states =
          forward_layers({.residual = inputs[0], .branch = {}}, context, begin, end);
      return HiddenDropout(hidden_dropout_, context).sum_of(states);
    };
    hidden_states = recompute(segment, {hidden_states}, *context.random);
  }
  return forward_layers({.residual = std::move(hidden_states), .branch = {}}, context, begin,
                        layers_.size());
}

}  // namespace meg::nn
