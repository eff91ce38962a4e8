#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/internal/forward_context.h"
#include "libmeg/nn/moe_options.h"
#include "libmeg/nn/parameter_store.h"

namespace meg::nn {

/// The experts of each token.
struct Routing {
  at::Tensor experts;  ///< [t, k] int64, each expert once.
  at::Tensor weights;  ///< [t, k] in the router's dtype: what their outputs are multiplied by.
  /// [t, k] bool: whether the expert has room for the token; where not, the weight is 0. Undefined:
  /// all have.
  at::Tensor kept = {};
};

/// Chooses the experts of each token. Mirrors Megatron-LM
/// megatron/core/transformer/moe/router.py: TopKRouter.
class Router {
 public:
  Router(const model::GptConfig& config, const GptOptions& options, const ParameterStore& store,
         int64_t layer);

  /// [b, s, h] -> t = b s tokens. In training with gradients, the weights carry those of the
  /// auxiliary losses; where ranks have parts of the sequences, each has a part of the loss, which
  /// depends on how often all of them chose an expert.
  Routing forward(const at::Tensor& hidden_states, const ForwardContext& context) const;

 private:
  at::Tensor logits(const at::Tensor& tokens) const;
  /// [t, experts] -> [t, k]
  at::Tensor best_experts(const at::Tensor& scores) const;
  Routing route(const at::Tensor& logits) const;

  /// Ranks that have different parts of the sequences.
  int64_t parts_of_sequences() const {
    return tensor_parallel_.splits_sequences() ? tensor_parallel_.size() : 1;
  }

  at::Tensor balancing_loss(const BalancingLoss& loss, const at::Tensor& logits, int64_t sequences,
                            const ForwardContext& context) const;

  int64_t capacity(int64_t tokens) const;
  void drop_tokens(Routing& routing, int64_t sequences) const;
  void count_tokens(const Routing& routing) const;

  at::Tensor weight_;  ///< [experts, h]
  at::Tensor bias_;    ///< [experts]; undefined: none.
  /// ExpertBias's, undefined without one.
  at::Tensor expert_bias_, tokens_per_expert_;
  MoeOptions options_;
  int64_t layer_, num_experts_, topk_;
  TensorParallel tensor_parallel_;
};

}  // namespace meg::nn
