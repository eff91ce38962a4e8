#include "libmeg/checkpoint/dialects/huggingface/internal/config_rows.h"

#include <algorithm>
#include <iterator>

namespace meg::checkpoint {
namespace {

constexpr HuggingFaceArchitecture kArchitectures[] = {
    {kGpt2, "gpt2", "GPT2LMHeadModel", model::HuggingFaceFamily::kGpt2},
    {kLlama, "llama", "LlamaForCausalLM", model::HuggingFaceFamily::kLlama},
    {kMistral, "mistral", "MistralForCausalLM", model::HuggingFaceFamily::kLlama},
    {kQwen2, "qwen2", "Qwen2ForCausalLM", model::HuggingFaceFamily::kLlama},
    {kQwen3, "qwen3", "Qwen3ForCausalLM", model::HuggingFaceFamily::kLlama},
    {kMixtral, "mixtral", "MixtralForCausalLM", model::HuggingFaceFamily::kMixtral},
    {kQwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM", model::HuggingFaceFamily::kQwenMoe},
    {kQwen2Moe, "qwen2_moe", "Qwen2MoeForCausalLM", model::HuggingFaceFamily::kQwenMoe}};

/// Qwen2-MoE's experts have any; the others have none.
constexpr std::string_view kSharedExpertSize = "moe_shared_expert_intermediate_size";

/// Keys that change nothing that Megatron or libmeg computes. Sorted, as is_neutral_key() looks
/// them up by halves.
constexpr std::string_view kNeutralKeys[] = {"_attn_implementation",
                                             "_name_or_path",
                                             "architectures",
                                             "bos_token_id",
                                             "dtype",
                                             "embd_pdrop",
                                             "eos_token_id",
                                             "max_window_layers",
                                             "model_type",
                                             "n_ctx",
                                             "output_attentions",
                                             "output_hidden_states",
                                             "output_past",
                                             "output_router_logits",
                                             "pad_token_id",
                                             "pretraining_tp",
                                             "reorder_and_upcast_attn",
                                             "return_dict",
                                             "router_jitter_noise",
                                             "summary_activation",
                                             "summary_first_dropout",
                                             "summary_proj_to_labels",
                                             "summary_type",
                                             "summary_use_proj",
                                             "task_specific_params",
                                             "torch_dtype",
                                             "transformers_version",
                                             "use_cache"};

}  // namespace

std::span<const HuggingFaceArchitecture> hugging_face_architectures() { return kArchitectures; }

const std::vector<ConfigRow>& config_rows() {
  constexpr ArchitectureSet kRotary = kRotaryArchitectures;
  // Keys and defaults for missing ones are those of transformers' configuration classes.
  static const std::vector<ConfigRow> rows = {
      {kGpt2, "n_layer", "num_layers", std::nullopt},
      {kGpt2, "n_embd", "hidden_size", std::nullopt},
      {kGpt2, "n_head", "num_attention_heads", std::nullopt},
      {kGpt2, "n_inner", "ffn_hidden_size", megatron::FieldValue()},
      {kGpt2, "n_positions", "max_position_embeddings", std::nullopt},
      {kGpt2, "layer_norm_epsilon", "norm_epsilon", 1e-5},
      {kGpt2, "resid_pdrop", "hidden_dropout", 0.1},
      {kGpt2, "attn_pdrop", "attention_dropout", 0.1},

      {kRotary, "num_hidden_layers", "num_layers", std::nullopt},
      {kRotary, "hidden_size", "hidden_size", std::nullopt},
      {kRotary, "intermediate_size", "ffn_hidden_size", std::nullopt},
      {kRotary, "num_attention_heads", "num_attention_heads", std::nullopt},
      {kLlama, "num_key_value_heads", "num_query_groups", megatron::FieldValue()},
      {kMistral | kQwen2 | kQwen3 | kExpertArchitectures, "num_key_value_heads", "num_query_groups",
       std::nullopt},
      {kLlama | kMistral | kQwen2 | kExpertArchitectures, "head_dim", "kv_channels",
       megatron::FieldValue()},
      {kQwen3, "head_dim", "kv_channels", int64_t{128}},
      {kMixtral, "num_local_experts", "num_experts", std::nullopt},
      // transformers 4's word and 5's; read_experts() asks for one of them.
      {kQwenExpertArchitectures, "num_experts", "num_experts", megatron::FieldValue()},
      {kQwenExpertArchitectures, "num_local_experts", "num_experts", megatron::FieldValue()},
      {kExpertArchitectures, "num_experts_per_tok", "moe_router_topk", std::nullopt},
      {kQwenExpertArchitectures, "moe_intermediate_size", "moe_ffn_hidden_size", std::nullopt},
      {kQwen2Moe, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
       std::nullopt},
      {kExpertArchitectures, "router_aux_loss_coef", "moe_aux_loss_coeff", 0.001},
      {kRotary, "max_position_embeddings", "max_position_embeddings", std::nullopt},
      {kRotary, "rms_norm_eps", "norm_epsilon", 1e-6},
      {kRotary, "attention_dropout", "attention_dropout", 0.0},

      {kGpt2 | kRotary, "initializer_range", "init_method_std", 0.02},
      {kGpt2 | kRotary, "vocab_size", "vocab_size", std::nullopt}};
  return rows;
}

const std::vector<DecidedField>& decided_fields() {
  // What the classes of transformers compute without a key for it: the value of those that have it,
  // and of the rest.
  static const std::vector<DecidedField> fields = {
      {"position_embedding_type", "learned_absolute", kRotaryArchitectures, "rope"},
      {"normalization", "LayerNorm", kRotaryArchitectures, "RMSNorm"},
      {"swiglu", false, kRotaryArchitectures, true},
      {"add_bias_linear", true, kRotaryArchitectures, false},
      {"add_qkv_bias", false, kQwen2 | kQwen2Moe, true},
      {"qk_layernorm", false, kQwen3 | kQwen3Moe, true},
      {"gated_linear_unit", false, 0, false},
      {"squared_relu", false, 0, false},
      {"apply_layernorm_1p", false, 0, false},
      {"layernorm_zero_centered_gamma", false, 0, false},
      {"apply_residual_connection_post_layernorm", false, 0, false},
      {"rotary_percent", 1.0, 0, 1.0},
      {"rotary_interleaved", false, 0, false},
      {"multi_latent_attention", false, 0, false},
      {"moe_router_score_function", "softmax", 0, "softmax"},
      {"moe_router_enable_expert_bias", false, 0, false},
      {"moe_router_num_groups", megatron::FieldValue(), 0, megatron::FieldValue()},
      {"moe_router_group_topk", megatron::FieldValue(), 0, megatron::FieldValue()},
      {"moe_router_topk_scaling_factor", megatron::FieldValue(), 0, megatron::FieldValue()},
      {kSharedExpertSize, megatron::FieldValue(), 0, megatron::FieldValue()},
      {"moe_shared_expert_gate", false, kQwen2Moe, true},
      {"moe_layer_freq", int64_t{1}, 0, int64_t{1}}};
  return fields;
}

bool is_decided_for(const DecidedField& field, ArchitectureSet architecture) {
  if (field.field == kSharedExpertSize && architecture == kQwen2Moe) return false;
  return !field.field.starts_with("moe_") || (architecture & kExpertArchitectures) != 0;
}

const std::vector<FixedKey>& fixed_keys() {
  // Keys with which transformers would compute something that Megatron's model does not.
  static const std::vector<FixedKey> keys = {
      {kGpt2, "scale_attn_weights", true},
      {kGpt2, "scale_attn_by_inverse_layer_idx", false},
      {kGpt2, "add_cross_attention", false},
      {kRotaryArchitectures, "hidden_act", "silu"},
      {kLlama | kQwen3 | kQwen3Moe, "attention_bias", false},
      {kLlama, "mlp_bias", false},
      {kQwen2 | kQwen3 | kQwenExpertArchitectures, "use_sliding_window", false},
      {kQwen2Moe, "qkv_bias", true},
      {kQwenExpertArchitectures, "decoder_sparse_step", int64_t{1}},
      {kRotaryArchitectures, "partial_rotary_factor", 1.0},
      {kGpt2 | kRotaryArchitectures, "is_encoder_decoder", false},
      {kGpt2 | kRotaryArchitectures, "quantization_config", megatron::FieldValue()},
      // Its name in files of compressed-tensors before transformers took it over.
      {kGpt2 | kRotaryArchitectures, "compression_config", megatron::FieldValue()}};
  return keys;
}

int64_t shared_expert_size(const megatron::FieldLookup& args) {
  const std::optional<megatron::FieldValue> found = args(kSharedExpertSize);
  const int64_t* size = found.has_value() ? std::get_if<int64_t>(&*found) : nullptr;
  return size == nullptr ? 0 : *size;
}

bool is_neutral_key(std::string_view key) {
  return std::binary_search(std::begin(kNeutralKeys), std::end(kNeutralKeys), key);
}

}  // namespace meg::checkpoint
