#include "libmeg/nn/layers/internal/experts.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "libmeg/nn/layers/internal/token_dispatch.h"
#include "libmeg/nn/operators/internal/linear_product.h"

namespace meg::nn {

Experts::Experts(const model::GptConfig& config, const GptOptions& options,
                 const ParameterStore& store, int64_t layer)
    : router_(config, options, store, layer),
      num_experts_(*config.num_experts),
      ranks_(store.expert_parallel()),
      shared_gate_(store.find("decoder.layers.{}.mlp.shared_experts.gate_weight", layer)) {
  const int64_t share = num_experts_ / ranks_.model_size();
  for (int64_t i = 0; i < share; ++i) {
    experts_.emplace_back(config, options, store,
                          fmt::format("decoder.layers.{{}}.mlp.experts.local_experts.{}.",
                                      ranks_.model_rank() * share + i),
                          layer, /*ranks=*/TensorParallel());
  }
  if (!config.moe_shared_expert_intermediate_size.has_value()) return;
  shared_expert_.emplace(config, options, store, "decoder.layers.{}.mlp.shared_experts.", layer,
                         store.tensor_parallel());
}

at::Tensor Experts::forward(const at::Tensor& hidden_states, const ForwardContext& context) const {
  const Routing routing = router_.forward(hidden_states, context);
  const at::Tensor tokens = hidden_states.reshape({-1, hidden_states.size(-1)});
  const auto compute = [&](int64_t expert, const at::Tensor& rows) {
    // In training an expert without tokens takes part as well: its gradient is zero, not missing.
    const bool is_idle = rows.size(0) == 0 && !context.training;
    return is_idle ? rows : experts_[static_cast<size_t>(expert)].forward(rows);
  };
  const at::Tensor sum = dispatch_all_to_all(tokens, routing, num_experts_, ranks_, compute)
                             .reshape(hidden_states.sizes());
  if (!shared_expert_.has_value()) return sum;
  const at::Tensor shared = shared_expert_->forward(hidden_states);
  if (!shared_gate_.defined()) return sum + shared;
  return sum + shared * at::sigmoid(linear_product(hidden_states, shared_gate_));
}

}  // namespace meg::nn
