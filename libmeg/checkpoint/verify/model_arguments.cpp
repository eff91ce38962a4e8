#include "libmeg/checkpoint/verify/model_arguments.h"

#include <algorithm>
#include <array>

namespace meg {
namespace {

constexpr std::array<std::string_view, 32> kFields = {
    "activation_func_clamp_value",
    "apply_layernorm_1p",
    "apply_query_key_layer_scaling",
    "apply_residual_connection_post_layernorm",
    "attention_output_gate",
    "attention_softmax_in_fp32",
    "bias_gelu_fusion",
    "embedding_multiplier",
    "fp32_residual_connection",
    "glu_activation",
    "glu_linear_offset",
    "layernorm_epsilon",
    "multi_latent_attention",
    "no_rope_freq",
    "norm_epsilon",
    "onnx_safe",
    "openai_gelu",
    "qk_clip",
    "qk_l2_norm",
    "quick_geglu",
    "rope_scaling_factor",
    "rope_type",
    "rotary_base",
    "rotary_interleaved",
    "rotary_percent",
    "rotary_scaling_factor",
    "rotary_seq_len_interpolation_factor",
    "softmax_type",
    "squared_relu",
    "use_rope_scaling",
    "window_attn_skip_freq",
    "window_size",
};

}  // namespace

bool changes_the_model(std::string_view dest) {
  return std::find(kFields.begin(), kFields.end(), dest) != kFields.end();
}

}  // namespace meg
