#include "libmeg/nn/moe_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "libmeg/megatron/field_reader.h"

namespace meg::nn {
namespace {

using megatron::FieldValue;

/// The words of a list, which is a single value where it has one word.
std::vector<std::string> words_of(const std::optional<FieldValue>& value) {
  if (!value.has_value() || std::holds_alternative<std::monostate>(*value)) return {};
  if (const auto* list = std::get_if<std::vector<std::string>>(&*value)) return *list;
  if (const auto* text = std::get_if<std::string>(&*value)) return {*text};
  return {megatron::field_text(*value)};
}

Result<double> coefficient_of(const std::string& word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc() && end == word.data() + word.size() && number >= 0) return number;
  return make_error(StatusCode::kInvalidArgument,
                    "moe_aux_loss_coeff: expected numbers of 0 or more, found {}", word);
}

/// The losses that change a gradient.
Result<std::vector<BalancingLoss>> read_losses(const std::vector<std::string>& types,
                                               const std::vector<std::string>& coefficients) {
  std::vector<BalancingLoss> losses;
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string& type = types[i];
    if (type == "none" || type == "None") continue;
    if (type != "aux_loss" && type != "seq_aux_loss" && type != "global_aux_loss") {
      return make_error(StatusCode::kUnsupported,
                        "moe_router_load_balancing_type {}: not supported yet", type);
    }
    // One coefficient may stand beside one type only.
    if (coefficients.size() != types.size() && !coefficients.empty()) {
      return make_error(StatusCode::kInvalidArgument,
                        "moe_aux_loss_coeff: expected one for each of {} types of loss, found {}",
                        types.size(), coefficients.size());
    }
    if (coefficients.empty()) continue;
    MEG_ASSIGN_OR_RETURN(const double coefficient, coefficient_of(coefficients[i]));
    if (coefficient == 0) continue;
    losses.push_back({.type = type, .coefficient = coefficient});
  }
  return losses;
}

/// Fields with which experts are others, or get other tokens, than any module here computes, and
/// which are off where they are not said.
constexpr std::string_view kNotSupported[] = {"moe_apply_probs_on_input", "moe_input_jitter_eps",
                                              "moe_latent_size", "moe_router_force_biased",
                                              "moe_router_force_load_balancing"};

Status check_supported(const megatron::FieldLookup& lookup) {
  Status first;
  for (const std::string_view field : kNotSupported) {
    const FieldValue value = lookup(field).value_or(FieldValue());
    if (value == FieldValue() || value == FieldValue(false) || !first.ok()) continue;
    first = make_error(StatusCode::kUnsupported, "{} {}: not supported yet", field,
                       megatron::field_text(value));
  }
  return first;
}

Status read_router(megatron::FieldReader& fields, MoeOptions& options) {
  options.router_pre_softmax = fields.flag("moe_router_pre_softmax", false);
  // 0 means none, as in Megatron.
  const double factor = fields.number("moe_router_topk_scaling_factor").value_or(0);
  if (factor != 0) options.router_topk_scaling_factor = factor;
  options.router_bias_update_rate =
      fields.number("moe_router_bias_update_rate").value_or(options.router_bias_update_rate);
  options.router_num_groups = fields.size("moe_router_num_groups");
  options.router_group_topk = fields.size("moe_router_group_topk");
  options.z_loss_coeff = fields.number("moe_z_loss_coeff");
  const std::string score = fields.text("moe_router_score_function").value_or("softmax");
  const std::string dtype = fields.text("moe_router_dtype").value_or("");
  if (score != "softmax" && score != "sigmoid") {
    return make_error(StatusCode::kUnsupported,
                      "moe_router_score_function: expected softmax or sigmoid, found {}", score);
  }
  if (score == "sigmoid") options.router_score_function = RouterScore::kSigmoid;
  if (dtype == "fp32") options.router_dtype = at::kFloat;
  if (dtype == "fp64") options.router_dtype = at::kDouble;
  if (!dtype.empty() && !options.router_dtype.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "moe_router_dtype: expected fp32 or fp64, found {}", dtype);
  }
  return fields.status();
}

Status read_capacity(megatron::FieldReader& fields, MoeOptions& options) {
  const double factor = fields.number("moe_expert_capacity_factor").value_or(-1);
  const std::string policy = fields.text("moe_token_drop_policy").value_or("probs");
  options.pad_expert_input_to_capacity = fields.flag("moe_pad_expert_input_to_capacity", false);
  // Below 0 it means none, as in Megatron.
  if (factor >= 0) options.expert_capacity_factor = factor;
  if (policy == "position") {
    options.token_drop_policy = TokenDropPolicy::kPosition;
  } else if (policy != "probs") {
    return make_error(StatusCode::kInvalidArgument,
                      "moe_token_drop_policy: expected probs or position, found {}", policy);
  }
  if (options.pad_expert_input_to_capacity && !options.expert_capacity_factor.has_value()) {
    return Status(StatusCode::kInvalidArgument,
                  "moe_pad_expert_input_to_capacity: expected moe_expert_capacity_factor with it, "
                  "found none");
  }
  return fields.status();
}

}  // namespace

Result<MoeOptions> MoeOptions::from_fields(const megatron::FieldLookup& lookup) {
  megatron::FieldReader fields(lookup);
  const bool has_experts = fields.size("num_experts").has_value();
  MoeOptions options;
  const Status router = read_router(fields, options);
  const Status capacity = read_capacity(fields, options);
  const Status supported = check_supported(lookup);
  auto losses = read_losses(words_of(lookup("moe_router_load_balancing_type")),
                            words_of(lookup("moe_aux_loss_coeff")));
  // Args of dense models have these, too.
  if (!has_experts) return MoeOptions();
  MEG_RETURN_IF_ERROR(router);
  MEG_RETURN_IF_ERROR(capacity);
  MEG_RETURN_IF_ERROR(supported);
  MEG_ASSIGN_OR_RETURN(options.balancing_losses, std::move(losses));
  return options;
}

Status MoeOptions::check(const model::GptConfig& config) const {
  if (!config.num_experts.has_value()) return {};
  const int64_t experts = *config.num_experts;
  const int64_t router_topk = config.moe_router_topk;
  if (router_topk > experts) {
    return make_error(StatusCode::kInvalidArgument,
                      "moe_router_topk: expected at most the {} experts (num_experts), found {}",
                      experts, router_topk);
  }
  const bool is_softmax = router_score_function == RouterScore::kSoftmax;
  if (config.moe_router_enable_expert_bias && is_softmax) {
    return Status(StatusCode::kInvalidArgument,
                  "moe_router_enable_expert_bias: expected moe_router_score_function sigmoid with "
                  "it, found softmax");
  }
  if (config.moe_shared_expert_intermediate_size.has_value() && config.add_bias_linear) {
    return Status(StatusCode::kUnsupported,
                  "moe_shared_expert_intermediate_size: expected no biases of linear layers with "
                  "shared experts, found some");
  }
  if (router_topk == 1 && is_softmax && !router_pre_softmax) {
    return Status(StatusCode::kInvalidArgument,
                  "moe_router_topk 1: expected moe_router_pre_softmax, as the softmax of one logit "
                  "is always 1");
  }
  if (!router_group_topk.has_value()) return {};
  if (!router_num_groups.has_value() || experts % *router_num_groups != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "moe_router_num_groups: expected a divisor of the {} experts with "
                      "moe_router_group_topk, found {}",
                      experts,
                      router_num_groups.has_value() ? std::to_string(*router_num_groups) : "none");
  }
  const int64_t size = experts / *router_num_groups;
  const bool fits = *router_group_topk <= *router_num_groups &&
                    router_topk % *router_group_topk == 0 &&
                    router_topk / *router_group_topk <= size;
  if (fits) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "moe_router_group_topk: expected at most {} groups of {} experts that divide "
                    "moe_router_topk {}, found {}",
                    *router_num_groups, size, router_topk, *router_group_topk);
}

}  // namespace meg::nn
