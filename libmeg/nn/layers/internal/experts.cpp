#include "libmeg/nn/layers/internal/experts.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "libmeg/nn/operators/internal/linear_product.h"

namespace meg::nn {

Experts::Experts(const model::GptConfig& config, const GptOptions& options,
                 const ParameterStore& store, int64_t layer)
    : router_(config, options, store, layer),
      shared_gate_(store.find("decoder.layers.{}.mlp.shared_experts.gate_weight", layer)) {
  for (int64_t expert = 0; expert < *config.num_experts; ++expert) {
    experts_.emplace_back(config, options, store,
                          fmt::format("decoder.layers.{{}}.mlp.experts.local_experts.{}.", expert),
                          layer);
  }
  if (!config.moe_shared_expert_intermediate_size.has_value()) return;
  shared_expert_.emplace(config, options, store, "decoder.layers.{}.mlp.shared_experts.", layer);
}

at::Tensor Experts::forward(const at::Tensor& hidden_states, const ForwardContext& context) const {
  const Routing routing = router_.forward(hidden_states, context);
  const int64_t topk = routing.experts.size(1);
  const at::Tensor tokens = hidden_states.reshape({-1, hidden_states.size(-1)});
  // Sorted by expert, so that each one's tokens are a matrix without gaps or padding. Stable: the
  // result of a token does not depend on which others there are.
  const at::Tensor flat = routing.experts.flatten();
  const at::Tensor order = std::get<1>(at::sort(flat, /*stable=*/true, 0, /*descending=*/false));
  const at::Tensor rows = order.floor_divide(topk);
  const at::Tensor counts =
      at::bincount(flat, {}, static_cast<int64_t>(experts_.size())).to(at::kCPU);
  // Split at once: the gradients of single slices would each be as large as all tokens together.
  const std::vector<at::Tensor> inputs = tokens.index_select(0, rows).split_with_sizes(
      {counts.const_data_ptr<int64_t>(), experts_.size()});
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < experts_.size(); ++i) {
    // In training an expert without tokens takes part as well: its gradient is zero, not missing.
    if (inputs[i].size(0) > 0 || context.training) {
      outputs.push_back(experts_[i].forward(inputs[i]));
    }
  }
  const at::Tensor weights =
      routing.weights.flatten().index_select(0, order).unsqueeze(1).to(tokens.scalar_type());
  at::Tensor sum = at::zeros_like(tokens, tokens.options().requires_grad(false))
                       .index_add(0, rows, at::cat(outputs) * weights)
                       .reshape(hidden_states.sizes());
  if (!shared_expert_.has_value()) return sum;
  const at::Tensor shared = shared_expert_->forward(hidden_states);
  if (!shared_gate_.defined()) return sum + shared;
  return sum + shared * at::sigmoid(linear_product(hidden_states, shared_gate_));
}

}  // namespace meg::nn
