#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_value.h"
#include "libmeg/model/gpt_config.h"

namespace meg::nn {

/// How a router turns logits into scores.
enum class RouterScore : uint8_t { kSoftmax, kSigmoid };

/// Which tokens of a full expert are dropped.
enum class TokenDropPolicy : uint8_t { kProbs, kPosition };

/// An auxiliary loss that keeps experts equally loaded. Mirrors switch_load_balancing_loss_func.
struct BalancingLoss {
  /// "aux_loss": over the micro-batch; "seq_aux_loss": over each sequence; "global_aux_loss": over
  /// the step's micro-batches of all ranks so far.
  std::string type = {};
  double coefficient = 0;  ///< Above 0.

  /// "load_balancing_loss", as Megatron logs it.
  std::string_view log_name() const {
    if (type == "global_aux_loss") return "global_load_balancing_loss";
    return type == "aux_loss" ? "load_balancing_loss" : "seq_load_balancing_loss";
  }
};

/// How mixtures of experts compute; GptConfig describes their structure. Names are those of
/// Megatron's args without moe_.
/// Mirrors Megatron-LM megatron/core/transformer/moe/router.py.
struct MoeOptions {
  RouterScore router_score_function = RouterScore::kSoftmax;
  /// Whether scores are the softmax of all logits, or that of the chosen ones.
  bool router_pre_softmax = false;
  double router_topk_scaling_factor = 1;
  double router_bias_update_rate = 1e-3;  ///< The step of expert biases.
  /// The dtype in which the router computes; nullopt: the parameters'.
  std::optional<at::ScalarType> router_dtype = std::nullopt;
  /// With both, a token's experts are those of its router_group_topk best groups of experts.
  std::optional<int64_t> router_num_groups = std::nullopt;
  std::optional<int64_t> router_group_topk = std::nullopt;
  /// Each expert takes at most this many times its equal share of the tokens that are passed at
  /// once; what others of them put out does not count. nullopt: all.
  std::optional<double> expert_capacity_factor = std::nullopt;
  TokenDropPolicy token_drop_policy = TokenDropPolicy::kProbs;
  bool pad_expert_input_to_capacity = false;  ///< Only tokens_per_expert of ExpertBias shows it.
  std::vector<BalancingLoss> balancing_losses = {};   ///< In training.
  std::optional<double> z_loss_coeff = std::nullopt;  ///< In training.

  /// Reads them by Megatron's names; the defaults where args have no num_experts. kUnsupported for
  /// what no module has, by name.
  static Result<MoeOptions> from_fields(const megatron::FieldLookup& lookup);

  /// kInvalidArgument, with the option's name, if a model of this configuration cannot have them.
  Status check(const model::GptConfig& config) const;
};

}  // namespace meg::nn
