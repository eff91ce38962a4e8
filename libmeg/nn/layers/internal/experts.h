#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "libmeg/nn/expert_parallel.h"
#include "libmeg/nn/layers/internal/mlp.h"
#include "libmeg/nn/layers/internal/router.h"

namespace meg::nn {

/// A layer's mixture of experts: the router gives each token to some MLPs, whose outputs are added
/// up in the router's proportions, and that of a shared expert. Several ranks may share the
/// experts, each with tokens of its own.
/// Mirrors Megatron-LM megatron/core/transformer/moe/moe_layer.py and experts.py: SequentialMLP,
/// shared_experts.py.
class Experts {
 public:
  Experts(const model::GptConfig& config, const GptOptions& options, const ParameterStore& store,
          int64_t layer);

  /// [b, s, h] -> [b, s, h]
  at::Tensor forward(const at::Tensor& hidden_states, const ForwardContext& context) const;

 private:
  Router router_;
  int64_t num_experts_;
  ExpertParallel ranks_;
  std::vector<Mlp> experts_;  ///< This rank's.
  std::optional<Mlp> shared_expert_;
  at::Tensor shared_gate_;  ///< [1, h]; undefined: none.
};

}  // namespace meg::nn
