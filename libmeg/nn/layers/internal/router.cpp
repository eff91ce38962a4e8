#include "libmeg/nn/layers/internal/router.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/nn/operators/internal/linear_product.h"

namespace meg::nn {
namespace {

/// Hands a tensor on, and gives a loss that was computed of it its gradient when the backward pass
/// comes there: so the loss needs no way to the end of the model, which another rank may hold.
/// Mirrors Megatron-LM's MoEAuxLossAutoScaler.
class AttachedLoss : public torch::autograd::Function<AttachedLoss> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& loss, double scale) {
    context->save_for_backward({loss});
    context->saved_data["scale"] = scale;
    return input.view_as(input);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor loss = context->get_saved_variables()[0];
    const double scale = context->saved_data["scale"].toDouble();
    return {gradients[0], at::full_like(loss, scale), at::Tensor()};
  }
};

/// 1 at the chosen experts: [t, k] -> [t, experts].
at::Tensor chosen(const at::Tensor& experts, int64_t num_experts) {
  return at::zeros({experts.size(0), num_experts}, experts.options().dtype(at::kFloat))
      .scatter_(1, experts, 1);
}

}  // namespace

Router::Router(const model::GptConfig& config, const GptOptions& options,
               const ParameterStore& store, int64_t layer)
    : weight_(store.find("decoder.layers.{}.mlp.router.weight", layer)),
      bias_(store.find("decoder.layers.{}.mlp.router.bias", layer)),
      options_(options.moe),
      layer_(layer),
      num_experts_(*config.num_experts),
      topk_(config.moe_router_topk),
      tensor_parallel_(store.tensor_parallel()) {
  const ExpertBias* const bias = store.find_expert_bias(layer);
  if (bias == nullptr) return;
  expert_bias_ = bias->tensor;
  tokens_per_expert_ = bias->tokens_per_expert;
}

at::Tensor Router::logits(const at::Tensor& tokens) const {
  const at::ScalarType dtype = options_.router_dtype.value_or(tokens.scalar_type());
  const at::Tensor product = linear_product(tokens.to(dtype), weight_.to(dtype));
  return bias_.defined() ? product + bias_.to(dtype) : product;
}

at::Tensor Router::best_experts(const at::Tensor& scores) const {
  if (!options_.router_group_topk.has_value()) return std::get<1>(at::topk(scores, topk_, 1));
  const int64_t groups = *options_.router_num_groups;
  // A group is worth the sum of as many of its best experts as each chosen group gives on average.
  const at::Tensor of_groups = scores.view({scores.size(0), groups, -1});
  const at::Tensor values =
      std::get<0>(at::topk(of_groups, topk_ / *options_.router_group_topk, -1)).sum(-1);
  const at::Tensor best = std::get<1>(at::topk(values, *options_.router_group_topk, -1));
  const at::Tensor is_out =
      at::ones_like(values, values.options().dtype(at::kBool)).scatter_(1, best, 0);
  const at::Tensor masked =
      of_groups.masked_fill(is_out.unsqueeze(-1), -std::numeric_limits<double>::infinity())
          .view_as(scores);
  return std::get<1>(at::topk(masked, topk_, 1));
}

Routing Router::route(const at::Tensor& logits) const {
  const auto softmax = [&](const at::Tensor& input) {
    return at::softmax(input, -1, at::kFloat).to(logits.scalar_type());
  };
  Routing routing;
  if (options_.router_score_function == RouterScore::kSigmoid) {
    const at::Tensor scores = at::sigmoid(logits.to(at::kFloat)).to(logits.scalar_type());
    const at::Tensor values = scores.detach();
    routing.experts = best_experts(expert_bias_.defined() ? values + expert_bias_ : values);
    routing.weights = scores.gather(1, routing.experts);
    if (topk_ > 1) {
      routing.weights = routing.weights / (routing.weights.sum(-1, /*keepdim=*/true) + 1e-20);
    }
  } else if (options_.router_pre_softmax) {
    const at::Tensor scores = softmax(logits);
    routing.experts = best_experts(scores.detach());
    routing.weights = scores.gather(1, routing.experts);
  } else {
    routing.experts = best_experts(logits.detach());
    routing.weights = softmax(logits.gather(1, routing.experts));
  }
  if (options_.router_topk_scaling_factor != 1) {
    routing.weights = routing.weights * options_.router_topk_scaling_factor;
  }
  return routing;
}

at::Tensor Router::balancing_loss(const BalancingLoss& loss, const at::Tensor& logits,
                                  int64_t sequences, const ForwardContext& context) const {
  at::Tensor scores;
  if (options_.router_score_function == RouterScore::kSigmoid) {
    scores = at::sigmoid(logits);
    scores = scores / (scores.sum(-1, /*keepdim=*/true) + 1e-20);
  } else {
    scores = at::softmax(logits, -1, at::kFloat);
  }
  const at::Tensor taken = chosen(std::get<1>(at::topk(scores.detach(), topk_, 1)), num_experts_);
  // What is balanced: the tokens of the micro-batch, or of each of its sequences for itself.
  const int64_t parts = loss.type == "seq_aux_loss" ? sequences : 1;
  const auto per_expert = [&](const at::Tensor& of_tokens) {
    return of_tokens.view({parts, -1, num_experts_}).sum(1);
  };
  const bool is_global = loss.type == "global_aux_loss";
  AuxiliaryLosses& auxiliary = *context.auxiliary_losses;
  at::Tensor counts = per_expert(taken);
  int64_t ranks = parts_of_sequences();
  if (is_global) {
    counts = auxiliary.mean_tokens_per_expert(layer_, counts);
    ranks *= auxiliary.copies;
  } else if (tensor_parallel_.splits_sequences()) {
    libtorch::throw_if_error(tensor_parallel_.group->all_reduce(counts));
  }
  const auto tokens = static_cast<double>(logits.size(0) / parts * ranks);
  const double scale = static_cast<double>(num_experts_) * loss.coefficient /
                       (static_cast<double>(topk_) * tokens * tokens) / static_cast<double>(parts);
  return (per_expert(scores) * counts).sum() * scale;
}

int64_t Router::capacity(int64_t tokens) const {
  const double share = static_cast<double>(tokens * topk_) / static_cast<double>(num_experts_);
  return static_cast<int64_t>(std::ceil(share * *options_.expert_capacity_factor));
}

void Router::drop_tokens(Routing& routing, int64_t sequences) const {
  const int64_t tokens = routing.experts.size(0);
  const int64_t most = capacity(tokens);
  if (most > tokens) return;
  // Which of equal ones topk takes depends on their order: Megatron's is [s, b].
  const auto turned = [&](const at::Tensor& of_tokens, int64_t rows) {
    return of_tokens.view({rows, -1, num_experts_}).transpose(0, 1).reshape({tokens, num_experts_});
  };
  const bool by_position = options_.token_drop_policy == TokenDropPolicy::kPosition;
  const at::Tensor values =
      by_position
          ? chosen(routing.experts, num_experts_).to(at::kInt)
          : at::zeros({tokens, num_experts_}, routing.weights.options().requires_grad(false))
                .scatter_(1, routing.experts, routing.weights.detach());
  const at::Tensor best =
      std::get<1>(at::topk(turned(values, sequences), most, 0, /*largest=*/true, /*sorted=*/false));
  const at::Tensor fits =
      at::zeros({tokens, num_experts_}, best.options().dtype(at::kBool)).scatter_(0, best, true);
  routing.kept = turned(fits, tokens / sequences).gather(1, routing.experts);
  routing.weights = routing.weights * routing.kept;
}

void Router::count_tokens(const Routing& routing) const {
  const c10::NoGradGuard without_gradients;
  const int64_t tokens = routing.experts.size(0);
  if (options_.pad_expert_input_to_capacity) {
    tokens_per_expert_.add_(std::min(capacity(tokens), tokens));
    return;
  }
  const at::Tensor counted = chosen(routing.experts, num_experts_);
  tokens_per_expert_.add_(
      (routing.kept.defined()
           ? at::zeros_like(counted).scatter_(1, routing.experts, routing.kept.to(at::kFloat))
           : counted)
          .sum(0));
}

Routing Router::forward(const at::Tensor& hidden_states, const ForwardContext& context) const {
  const int64_t sequences = hidden_states.size(0);
  at::Tensor logits = this->logits(hidden_states.reshape({-1, hidden_states.size(-1)}));
  const bool has_losses = context.training && c10::GradMode::is_enabled();
  if (has_losses && options_.z_loss_coeff.has_value()) {
    const double coefficient = *options_.z_loss_coeff;
    const at::Tensor loss = at::logsumexp(logits, {-1}).square().mean() *
                            (coefficient / static_cast<double>(parts_of_sequences()));
    context.auxiliary_losses->add("z_loss", loss.detach() / coefficient);
    logits = AttachedLoss::apply(logits, loss, context.auxiliary_losses->scale);
  }
  Routing routing = route(logits);
  if (options_.expert_capacity_factor.has_value()) drop_tokens(routing, sequences);
  // Once, though full recomputation passes twice: only its second pass has gradients.
  if (tokens_per_expert_.defined() && c10::GradMode::is_enabled()) count_tokens(routing);
  if (!has_losses) return routing;
  for (const BalancingLoss& loss : options_.balancing_losses) {
    const at::Tensor found = balancing_loss(loss, logits, sequences, context);
    // Each copy has its part of a global loss, of whose parts the log's mean over copies is taken.
    const double copies =
        loss.type == "global_aux_loss" ? static_cast<double>(context.auxiliary_losses->copies) : 1;
    context.auxiliary_losses->add(loss.log_name(), found.detach() * (copies / loss.coefficient));
    routing.weights = AttachedLoss::apply(routing.weights, found, context.auxiliary_losses->scale);
  }
  return routing;
}

}  // namespace meg::nn
