#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::nn {

/// Losses of a model's inner modules, by Megatron's names ("load_balancing_loss", "z_loss"). Their
/// gradients are part of each backward pass; the values are for logs.
struct AuxiliaryLosses {
  double scale = 1;  ///< What their gradients are multiplied by, as the caller scales the loss.
  /// Without their coefficients, summed over layers and passes: scalars on the model's device.
  std::vector<std::pair<std::string, at::Tensor>> sums = {};
  /// The copies of the model over whose tokens global_aux_loss balances experts, and what adds up a
  /// tensor of all ranks with other tokens in place; it may throw.
  int64_t copies = 1;
  std::function<void(const at::Tensor&)> sum_over_all_ranks = nullptr;

  void add(std::string_view name, const at::Tensor& loss);

  /// The mean, over the passes of this step so far, of the tokens that all ranks gave each expert
  /// of a layer. tokens_per_expert: of this rank and pass, which are added.
  at::Tensor mean_tokens_per_expert(int64_t layer, const at::Tensor& tokens_per_expert);

  /// Forgets the passes of the step before.
  void begin_step() { global_tokens_.clear(); }

 private:
  struct GlobalTokens {
    at::Tensor sum;
    int64_t passes = 0;
  };

  std::map<int64_t, GlobalTokens> global_tokens_ = {};  ///< By layer.
};

}  // namespace meg::nn
