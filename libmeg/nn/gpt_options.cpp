#include "libmeg/nn/gpt_options.h"

#include <array>
#include <cmath>
#include <utility>

namespace meg::nn {
namespace {

Status out_of_range(std::string_view name, std::string_view expected, double found) {
  return make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", name, expected,
                    found);
}

Status check_numbers(const GptOptions& options) {
  const std::array<std::pair<std::string_view, double>, 2> dropouts = {
      {{"hidden_dropout", options.hidden_dropout},
       {"attention_dropout", options.attention_dropout}}};
  for (const auto& [name, value] : dropouts) {
    if (!(value >= 0 && value < 1)) return out_of_range(name, "0 to less than 1", value);
  }
  const std::array<std::pair<std::string_view, double>, 12> positives = {
      {{"layernorm_epsilon", options.layernorm_epsilon},
       {"rotary_base", options.rotary_base},
       {"rotary_seq_len_interpolation_factor", options.rotary_seq_len_interpolation_factor},
       {"rope_scaling_factor", options.rope_scaling_factor},
       {"init_method_std", options.init_method_std},
       {"rotary_base_local", options.rotary_base_local.value_or(1)},
       {"embedding_multiplier", options.embedding_multiplier},
       {"residual_multiplier", options.residual_multiplier},
       {"logits_scaling", options.logits_scaling},
       {"softmax_scale", options.softmax_scale.value_or(1)},
       {"attn_logit_softcapping", options.attn_logit_softcapping.value_or(1)},
       {"final_logit_softcapping", options.final_logit_softcapping.value_or(1)}}};
  for (const auto& [name, value] : positives) {
    if (!(value > 0 && std::isfinite(value))) return out_of_range(name, "a number above 0", value);
  }
  if (!(options.rotary_percent > 0 && options.rotary_percent <= 1)) {
    return out_of_range("rotary_percent", "above 0 to 1", options.rotary_percent);
  }
  if (options.recompute_num_layers < 1) {
    return out_of_range("recompute_num_layers", "1 or more",
                        static_cast<double>(options.recompute_num_layers));
  }
  return Status();
}

Status check_types_and_backend(const GptOptions& options) {
  const at::ScalarType dtype = options.params_dtype;
  if (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16) {
    return make_error(StatusCode::kInvalidArgument,
                      "params_dtype: expected float32, float16 or bfloat16, found {}",
                      c10::toString(dtype));
  }
  // FlashAttention and cuDNN have kernels for 16 bits alone.
  const bool needs_16_bits = options.attention_backend == AttentionBackend::kFlash ||
                             options.attention_backend == AttentionBackend::kFused;
  if (needs_16_bits && dtype == at::kFloat && options.device.is_cuda()) {
    return make_error(
        StatusCode::kInvalidArgument,
        "attention_backend: expected auto, unfused or local for fp32 on a GPU, found {}",
        options.attention_backend == AttentionBackend::kFlash ? "flash" : "fused");
  }
  if (options.attention_backend == AttentionBackend::kFused && options.device.is_cuda() &&
      !options.drops_in_sixteenths()) {
    return out_of_range("attention_dropout",
                        "a multiple of 1/16 with attention_backend fused on a GPU, whose cuDNN "
                        "rounds it to one",
                        options.attention_dropout);
  }
  return Status();
}

/// What Megatron's validate_args and core_transformer_config_from_args refuse.
Status check_combinations(const GptOptions& options, const model::GptConfig& config) {
  const auto refuse = [](std::string_view name, std::string_view other) {
    return make_error(StatusCode::kInvalidArgument, "{}: cannot be combined with {}", name, other);
  };
  if (options.squared_relu && config.swiglu) return refuse("squared_relu", "swiglu");
  if (options.quick_geglu && config.swiglu) return refuse("quick_geglu", "swiglu");
  if (options.quick_geglu && options.squared_relu) return refuse("quick_geglu", "squared_relu");
  if (options.geglu && (config.swiglu || options.quick_geglu || options.squared_relu)) {
    return refuse("geglu", "swiglu, quick_geglu or squared_relu");
  }
  // Which has no bound for parameters of one dimension.
  if (options.init_method_xavier_uniform && config.softmax_type == "learnable") {
    return refuse("init_method_xavier_uniform", "softmax_type learnable");
  }
  if (options.quick_geglu && !config.gated_linear_unit) {
    return make_error(StatusCode::kInvalidArgument,
                      "quick_geglu: expected gated_linear_unit, found a model without a gate");
  }
  return Status();
}

/// What models of other makers have.
Status check_special_attention(const GptOptions& options, const model::GptConfig& config) {
  const bool is_learned = config.position_embedding_type == "learned_absolute";
  if (is_learned && options.embedding_multiplier != 1) {
    return make_error(StatusCode::kUnsupported,
                      "embedding_multiplier: expected 1 with learned positions, found {}",
                      options.embedding_multiplier);
  }
  if (options.parallel_residual && !config.pre_layernorm) {
    return make_error(StatusCode::kUnsupported,
                      "parallel_residual: expected pre_layernorm with it, found none");
  }
  if (config.has_softmax_offset() && options.device.is_cuda()) {
    return make_error(StatusCode::kUnsupported,
                      "softmax_type: expected vanilla on a GPU, found {}, which is computed on a "
                      "CPU only",
                      config.softmax_type);
  }
  const bool is_special =
      config.attention_window.has_value() || options.attn_logit_softcapping.has_value();
  const bool is_one_kernel = options.attention_backend == AttentionBackend::kFlash ||
                             options.attention_backend == AttentionBackend::kFused;
  if (is_special && is_one_kernel && options.device.is_cuda()) {
    return make_error(
        StatusCode::kUnsupported,
        "attention_backend: expected auto, unfused or local with {}, found {}",
        config.attention_window.has_value() ? "window_size" : "attn_logit_softcapping",
        options.attention_backend == AttentionBackend::kFlash ? "flash" : "fused");
  }
  return Status();
}

}  // namespace

bool GptOptions::drops_in_sixteenths() const { return std::fmod(attention_dropout * 16, 1) == 0; }

Status GptOptions::check(const model::GptConfig& config) const {
  MEG_RETURN_IF_ERROR(check_numbers(*this));
  MEG_RETURN_IF_ERROR(check_types_and_backend(*this));
  MEG_RETURN_IF_ERROR(check_combinations(*this, config));
  MEG_RETURN_IF_ERROR(moe.check(config));
  const std::string& positions = config.position_embedding_type;
  if (positions != "learned_absolute" && positions != "rope" && positions != "none") {
    return make_error(StatusCode::kUnsupported,
                      "position_embedding_type: expected learned_absolute, rope or none, found {}",
                      positions);
  }
  // An odd number rotates one more channel, as in Megatron, where the head has one.
  // Megatron computes it like this: int(kv_channels * rotary_percent), rounding included.
  const auto turned =
      static_cast<int64_t>(static_cast<double>(config.kv_channels) * rotary_percent);
  if (positions == "rope" && turned + turned % 2 > config.kv_channels) {
    return make_error(StatusCode::kInvalidArgument,
                      "rotary channels: expected an even number of kv_channels, found {}",
                      config.kv_channels);
  }
  if (config.normalization != "LayerNorm" && config.normalization != "RMSNorm") {
    return make_error(StatusCode::kUnsupported,
                      "normalization: expected LayerNorm or RMSNorm, found {}",
                      config.normalization);
  }
  if (config.gated_linear_unit && !config.swiglu && !quick_geglu && !geglu) {
    return make_error(StatusCode::kUnsupported,
                      "gated_linear_unit: expected swiglu, quick_geglu, GELU or no gate, found "
                      "another gate, which is not supported yet");
  }
  MEG_RETURN_IF_ERROR(check_special_attention(*this, config));
  return Status();
}

Result<AttentionBackend> attention_backend_from_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, AttentionBackend>, 5> kNames = {
      {{"auto", AttentionBackend::kAuto},
       {"flash", AttentionBackend::kFlash},
       {"fused", AttentionBackend::kFused},
       {"unfused", AttentionBackend::kUnfused},
       {"local", AttentionBackend::kLocal}}};
  for (const auto& [known, backend] : kNames) {
    if (known == name) return backend;
  }
  return make_error(StatusCode::kInvalidArgument,
                    "attention_backend: expected auto, flash, fused, unfused or local, found {}",
                    name);
}

}  // namespace meg::nn
