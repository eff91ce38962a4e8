#include <algorithm>
#include <utility>

#include "libmeg/megatron/field_reader.h"
#include "libmeg/nn/gpt_options.h"

namespace meg::nn {
namespace {

/// What Megatron refuses. It wants recompute_num_layers with full as well, whose default was 1
/// before core 0.4, as here.
Status check_recompute(model::RecomputeGranularity granularity,
                       const std::optional<std::string>& method, bool has_num_layers,
                       bool distributes) {
  using enum model::RecomputeGranularity;
  if (method.has_value() && *method != "uniform" && *method != "block") {
    return make_error(StatusCode::kInvalidArgument,
                      "recompute_method: expected uniform or block, found {}", *method);
  }
  if (granularity == kFull && !method.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "recompute_method: expected uniform or block with recompute_granularity "
                      "full, found none");
  }
  if (granularity == kSelective && (method.has_value() || has_num_layers)) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: only with recompute_granularity full, found selective "
                      "(recompute_activations means selective)",
                      method.has_value() ? "recompute_method" : "recompute_num_layers");
  }
  if (distributes && granularity != kFull) {
    return make_error(StatusCode::kInvalidArgument,
                      "distribute_saved_activations: only with recompute_granularity full");
  }
  return Status();
}

Status read_recompute(megatron::FieldReader& fields, GptOptions& options) {
  fields.parse("recompute_granularity", options.recompute_granularity,
               model::parse_recompute_granularity);
  if (fields.flag("recompute_activations", false)) {
    options.recompute_granularity = model::RecomputeGranularity::kSelective;
  }
  const std::optional<std::string> method = fields.text("recompute_method");
  const std::optional<int64_t> num_layers = fields.size("recompute_num_layers");
  const bool distributes = fields.flag("distribute_saved_activations", false);
  MEG_RETURN_IF_ERROR(
      check_recompute(options.recompute_granularity, method, num_layers.has_value(), distributes));
  options.recompute_method =
      method == "block" ? RecomputeMethod::kBlock : RecomputeMethod::kUniform;
  options.recompute_num_layers = num_layers.value_or(1);
  return Status();
}

Status read_types(megatron::FieldReader& fields, GptOptions& options) {
  const bool fp16 = fields.flag("fp16", false);
  const bool bf16 = fields.flag("bf16", false);
  if (fp16 && bf16) {
    return make_error(StatusCode::kInvalidArgument,
                      "fp16, bf16: expected one of them at most, found both");
  }
  if (fp16) options.params_dtype = at::kHalf;
  if (bf16) options.params_dtype = at::kBFloat16;
  return Status();
}

void read_numbers(megatron::FieldReader& fields, GptOptions& options) {
  const auto take = [&](std::string_view name, double& into) {
    if (const std::optional<double> found = fields.number(name)) into = *found;
  };
  take("hidden_dropout", options.hidden_dropout);
  take("attention_dropout", options.attention_dropout);
  take("layernorm_epsilon", options.layernorm_epsilon);
  take("norm_epsilon", options.layernorm_epsilon);
  take("rotary_base", options.rotary_base);
  take("rotary_percent", options.rotary_percent);
  take("rotary_seq_len_interpolation_factor", options.rotary_seq_len_interpolation_factor);
  take("rope_scaling_factor", options.rope_scaling_factor);
  take("init_method_std", options.init_method_std);
  take("embedding_multiplier", options.embedding_multiplier);
  take("residual_multiplier", options.residual_multiplier);
  take("logits_scaling", options.logits_scaling);
  options.softmax_scale = fields.number("softmax_scale");
  options.rotary_base_local = fields.number("rotary_base_local");
  options.attn_logit_softcapping = fields.number("attn_logit_softcapping");
  options.final_logit_softcapping = fields.number("final_logit_softcapping");
  if (const auto seed = fields.get<int64_t>("seed", "an integer")) {
    options.seed = static_cast<uint64_t>(*seed);
  }
}

/// The function of MLPs with any gate but SwiGLU's, or none.
Status read_activation(megatron::FieldReader& fields, GptOptions& options) {
  const bool openai_gelu = fields.flag("openai_gelu", false);
  options.squared_relu = fields.flag("squared_relu", false);
  options.quick_geglu = fields.flag("quick_geglu", false);
  options.geglu = fields.flag("geglu", false);
  if (openai_gelu && options.squared_relu) {
    return make_error(StatusCode::kInvalidArgument,
                      "squared_relu: cannot be combined with openai_gelu");
  }
  // Without biases there is nothing that the fusion could add.
  const bool fuses_bias_gelu =
      fields.flag("bias_gelu_fusion", true) && fields.flag("add_bias_linear", true);
  options.gelu = fuses_bias_gelu || openai_gelu ? GeluForm::kTanh : GeluForm::kErf;
  return Status();
}

}  // namespace

Result<GptOptions> GptOptions::from_fields(const megatron::FieldLookup& lookup) {
  megatron::FieldReader fields(lookup);
  GptOptions options;
  MEG_RETURN_IF_ERROR(read_types(fields, options));
  MEG_RETURN_IF_ERROR(read_recompute(fields, options));
  MEG_RETURN_IF_ERROR(read_activation(fields, options));
  read_numbers(fields, options);
  // core_v0.16 and later keep --apply-layernorm-1p by its config's name.
  options.apply_layernorm_1p =
      fields.flag("apply_layernorm_1p", fields.flag("layernorm_zero_centered_gamma", false));
  options.fp32_residual_connection = fields.flag("fp32_residual_connection", false);
  options.parallel_residual = fields.flag("parallel_residual", false);
  options.use_rope_scaling = fields.flag("use_rope_scaling", false);
  options.init_method_xavier_uniform = fields.flag("init_method_xavier_uniform", false);
  options.attention_softmax_in_fp32 = fields.flag("attention_softmax_in_fp32", false);
  options.apply_query_key_layer_scaling = fields.flag("apply_query_key_layer_scaling", false);
  options.rotary_interleaved = fields.flag("rotary_interleaved", false);
  if (const auto name = fields.text("attention_backend")) {
    MEG_ASSIGN_OR_RETURN(options.attention_backend, attention_backend_from_name(*name));
  }
  Result<MoeOptions> moe = MoeOptions::from_fields(lookup);
  MEG_RETURN_IF_ERROR(fields.status());
  MEG_ASSIGN_OR_RETURN(options.moe, std::move(moe));
  return options;
}

}  // namespace meg::nn
