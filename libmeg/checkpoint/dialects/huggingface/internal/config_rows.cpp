#include "libmeg/checkpoint/dialects/huggingface/internal/config_rows.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

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
    {kQwen2Moe, "qwen2_moe", "Qwen2MoeForCausalLM", model::HuggingFaceFamily::kQwenMoe},
    {kStarcoder2, "starcoder2", "Starcoder2ForCausalLM", model::HuggingFaceFamily::kStarcoder2},
    {kPhi3, "phi3", "Phi3ForCausalLM", model::HuggingFaceFamily::kPhi3},
    {kGranite, "granite", "GraniteForCausalLM", model::HuggingFaceFamily::kLlama},
    {kSmolLm3, "smollm3", "SmolLM3ForCausalLM", model::HuggingFaceFamily::kLlama},
    {kOlmo2, "olmo2", "Olmo2ForCausalLM", model::HuggingFaceFamily::kPostNorm},
    {kOlmo3, "olmo3", "Olmo3ForCausalLM", model::HuggingFaceFamily::kPostNorm},
    {kGptNeox, "gpt_neox", "GPTNeoXForCausalLM", model::HuggingFaceFamily::kGptNeox},
    {kFalcon, "falcon", "FalconForCausalLM", model::HuggingFaceFamily::kFalcon},
    {kGemma, "gemma", "GemmaForCausalLM", model::HuggingFaceFamily::kLlama},
    {kGemma2, "gemma2", "Gemma2ForCausalLM", model::HuggingFaceFamily::kPostNorm},
    {kGemma3, "gemma3_text", "Gemma3ForCausalLM", model::HuggingFaceFamily::kPostNorm}};

/// Norms that store their weights minus 1.
constexpr std::string_view kZeroCenteredNorms = "apply_layernorm_1p";

/// Qwen2-MoE's experts have any; the others have none.

/// Keys that change nothing that Megatron or libmeg computes. Sorted, as is_neutral_key() looks
/// them up by halves.
constexpr std::string_view kNeutralKeys[] = {"_attn_implementation",
                                             "_attn_implementation_internal",
                                             "_experts_implementation",
                                             "_experts_implementation_internal",
                                             "_name_or_path",
                                             "_output_attentions",
                                             "_sliding_window_pattern",
                                             "architectures",
                                             "attn_implementation",
                                             "bad_words_ids",
                                             "begin_suppress_tokens",
                                             "bos_token_id",
                                             "chunk_size_feed_forward",
                                             "classifier_dropout",
                                             "cross_attention_hidden_size",
                                             "decoder_start_token_id",
                                             "diversity_penalty",
                                             "do_sample",
                                             "dtype",
                                             "early_stopping",
                                             "encoder_no_repeat_ngram_size",
                                             "encoder_repetition_penalty",
                                             "eos_token_id",
                                             "epsilon_cutoff",
                                             "eta_cutoff",
                                             "experts_implementation",
                                             "exponential_decay_length_penalty",
                                             "finetuning_task",
                                             "forced_bos_token_id",
                                             "forced_eos_token_id",
                                             "gradient_checkpointing",
                                             "id2label",
                                             "is_decoder",
                                             "label2id",
                                             "length_penalty",
                                             "max_length",
                                             "min_length",
                                             "model_type",
                                             "mtp_layer_types",
                                             "multi_query",
                                             "n_ctx",
                                             "name_or_path",
                                             "no_repeat_ngram_size",
                                             "num_beam_groups",
                                             "num_beams",
                                             "num_labels",
                                             "num_return_sequences",
                                             "output_attentions",
                                             "output_hidden_states",
                                             "output_past",
                                             "output_router_logits",
                                             "output_scores",
                                             "pad_token_id",
                                             "prefix",
                                             "pretraining_tp",
                                             "problem_type",
                                             "remove_invalid_values",
                                             "reorder_and_upcast_attn",
                                             "repetition_penalty",
                                             "return_dict",
                                             "return_dict_in_generate",
                                             "sep_token_id",
                                             "summary_activation",
                                             "summary_first_dropout",
                                             "summary_proj_to_labels",
                                             "summary_type",
                                             "summary_use_proj",
                                             "suppress_tokens",
                                             "task_specific_params",
                                             "temperature",
                                             "tokenizer_class",
                                             "top_k",
                                             "top_p",
                                             "torch_dtype",
                                             "transformers_version",
                                             "typical_p",
                                             "use_cache"};

/// Keys that the mask, cache, rotary and loading code of transformers reads whatever the class, and
/// that change what is computed or read if they are not None.
constexpr std::string_view kKeysOfAnyClass[] = {
    "_rope_type_labels", "attention_chunk_size", "decoder", "fusion_config", "generator",
    "kv_sharing_modes", "mlp_layer_types", "num_kv_shared_layers", "per_layer_config",
    "pruned_heads", "quantization_config", "text_config", "text_encoder", "transformers_weights",
    // The name of quantization_config in files of compressed-tensors before transformers took it
    // over.
    "compression_config"};

constexpr ArchitectureSet kAll = kAllArchitectures;
constexpr ArchitectureSet kQwen = kQwen2 | kQwen3 | kQwenExpertArchitectures;

std::vector<KeyDefault> make_defaults() {
  const megatron::FieldValue none;
  // Each class's own, as its configuration class states them; huggingface_defaults_test compares
  // every one with transformers.
  std::vector<KeyDefault> defaults = {
      {kGpt2, "n_positions", int64_t{1024}},
      {kGpt2, "n_inner", none, true},
      {kGpt2, "layer_norm_epsilon", 1e-5},
      {kGpt2, "embd_pdrop", 0.1},
      {kGpt2, "resid_pdrop", 0.1},
      {kGpt2, "attn_pdrop", 0.1},
      {kGpt2, "activation_function", "gelu_new"},
      {kGpt2, "scale_attn_weights", true},
      {kGpt2, "scale_attn_by_inverse_layer_idx", false},
      {kGpt2, "add_cross_attention", false},

      {kLlama | kPhi3 | kGranite | kOlmos, "num_key_value_heads", none, true},
      {kStarcoder2, "num_key_value_heads", int64_t{2}},
      {kSmolLm3, "num_key_value_heads", int64_t{4}, true},
      {kGemma, "num_key_value_heads", int64_t{16}},
      {kGemma2 | kGemma3, "num_key_value_heads", int64_t{4}},
      {kFalcon, "num_kv_heads", none, true},
      {kMistral | kMixtral, "num_key_value_heads", int64_t{8}},
      {kQwen2 | kQwen3, "num_key_value_heads", int64_t{32}, true},
      {kQwen3Moe, "num_key_value_heads", int64_t{4}},
      {kQwen2Moe, "num_key_value_heads", int64_t{16}},
      {kLlama | kMistral | kMixtral | kStarcoder2, "head_dim", none, true},
      {kQwen2 | kQwenExpertArchitectures | kPhi3 | kGranite | kOlmos | kSmolLm3, "head_dim", none},
      {kGemmas, "head_dim", int64_t{256}},
      {kQwen3, "head_dim", int64_t{128}},
      {kLlama | kGranite | kOlmos | kGptNeox | kFalcon, "max_position_embeddings", int64_t{2048}},
      {kStarcoder2 | kPhi3, "max_position_embeddings", int64_t{4096}},
      {kGemma | kGemma2, "max_position_embeddings", int64_t{8192}},
      {kSmolLm3, "max_position_embeddings", int64_t{32768}},
      {kMistral | kMixtral | kGemma3, "max_position_embeddings", int64_t{131072}},
      {kQwen, "max_position_embeddings", int64_t{32768}},
      {kMixtral | kPhi3 | kOlmos, "rms_norm_eps", 1e-5},
      {kSiluArchitectures | kGemmas, "rms_norm_eps", 1e-6},
      {kStarcoder2, "norm_epsilon", 1e-5},
      {kGptNeox, "layer_norm_eps", 1e-5},
      {kFalcon, "layer_norm_epsilon", 1e-5},
      {kMixtral | kGemma3, "rope_theta", 1e6},
      {kOlmo3, "rope_theta", 5e5},
      {kSmolLm3, "rope_theta", 2e6},
      {kGptNeox, "rotary_emb_base", 1e4},
      {kRotaryArchitectures & ~kGptNeox, "rope_theta", 1e4},
      {kGemma3, "rope_local_base_freq", 1e4},
      {kGptNeox, "rotary_pct", 0.25},
      {kPhi3, "partial_rotary_factor", 1.0},
      {kRotaryArchitectures & ~kPartialRotary, "partial_rotary_factor", 1.0, true},
      {kSiluArchitectures, "hidden_act", "silu"},
      {kGptNeox, "hidden_act", "gelu"},
      {kStarcoder2 | kGemma, "hidden_act", "gelu_pytorch_tanh"},
      {kGemma2 | kGemma3, "hidden_activation", "gelu_pytorch_tanh"},
      {kFalcon, "activation", "gelu"},
      {kRotaryArchitectures, "attention_dropout", 0.0},
      {kStarcoder2, "residual_dropout", 0.0},
      {kStarcoder2, "embedding_dropout", 0.0},
      {kPhi3, "resid_pdrop", 0.0},
      {kPhi3, "embd_pdrop", 0.0},
      {kGptNeox | kFalcon, "hidden_dropout", 0.0},
      {kLlama | kQwen3 | kQwen3Moe | kGranite | kOlmos | kSmolLm3 | kGemmas, "attention_bias",
       false},
      {kGptNeox, "attention_bias", true},
      {kLlama | kGranite | kSmolLm3, "mlp_bias", false},
      {kStarcoder2, "use_bias", true},
      {kFalcon, "bias", false},
      {kFalcon, "ffn_hidden_size", none, true},
      {kFalcon, "alibi", false},
      {kFalcon, "new_decoder_architecture", false},
      {kFalcon, "parallel_attn", true},
      {kFalcon, "num_ln_in_parallel_attn", none, true},
      {kFalcon, "n_embed", none, true},
      {kGptNeox, "use_parallel_residual", true},
      {kGptNeox | kFalcon, "head_dim", none, true},
      {kGranite, "embedding_multiplier", 1.0},
      {kGranite, "residual_multiplier", 1.0},
      {kGranite, "logits_scaling", 1.0},
      {kGranite, "attention_multiplier", 1.0},
      {kGemma2 | kGemma3, "query_pre_attn_scalar", int64_t{256}},
      {kGemma2, "attn_logit_softcapping", 50.0, true},
      {kGemma2, "final_logit_softcapping", 30.0, true},
      {kGemma3, "attn_logit_softcapping", none, true},
      {kGemma3, "final_logit_softcapping", none, true},
      {kGemmas, "use_bidirectional_attention", none, true},
      {kGemma3, "sliding_window_pattern", int64_t{6}},
      {kSmolLm3, "no_rope_layers", none, true},
      {kSmolLm3, "no_rope_layer_interval", int64_t{4}},

      {kMistral, "sliding_window", int64_t{4096}, true},
      {kQwen | kOlmo3 | kGemma2 | kGemma3, "sliding_window", int64_t{4096}, true},
      {kAll & ~kQwen, "sliding_window", none, true},
      {kQwen | kSmolLm3, "use_sliding_window", false},
      {kQwen2 | kQwen3 | kQwen2Moe, "max_window_layers", int64_t{28}},
      {kAll, "layer_types", none, true},

      {kMixtral, "num_local_experts", int64_t{8}},
      {kQwen3Moe, "num_experts", int64_t{128}},
      {kQwen2Moe, "num_experts", int64_t{60}},
      {kMixtral, "num_experts_per_tok", int64_t{2}},
      {kQwen3Moe, "num_experts_per_tok", int64_t{8}},
      {kQwen2Moe, "num_experts_per_tok", int64_t{4}},
      {kQwen3Moe, "moe_intermediate_size", int64_t{768}},
      {kQwen2Moe, "moe_intermediate_size", int64_t{1408}},
      {kQwen2Moe, "shared_expert_intermediate_size", int64_t{5632}},
      {kQwen2Moe, "qkv_bias", true},
      {kQwenExpertArchitectures, "norm_topk_prob", false},
      {kQwenExpertArchitectures, "decoder_sparse_step", int64_t{1}},
      {kQwenExpertArchitectures, "mlp_only_layers", none, true},
      {kExpertArchitectures, "router_aux_loss_coef", 0.001},
      {kMixtral, "router_jitter_noise", 0.0},

      {kStarcoder2, "initializer_range", 0.018042},
      {kAll, "initializer_range", 0.02},
      {kGpt2 | kStarcoder2 | kSmolLm3 | kFalcon | kGemmas, "tie_word_embeddings", true},
      {kAll, "tie_word_embeddings", false},
      {kAll, "is_causal", true},
      {kAll, "is_encoder_decoder", false, true},
      {kAll, "default_rope_type", "default"}};
  for (const std::string_view key : kKeysOfAnyClass) {
    defaults.resize(defaults.size() + 1);
    defaults.back().architectures = kAll;
    defaults.back().key = key;
    defaults.back().takes_null = true;
  }
  return defaults;
}

}  // namespace

std::span<const HuggingFaceArchitecture> hugging_face_architectures() { return kArchitectures; }

const KeyDefault* default_of(ArchitectureSet architecture, std::string_view key) {
  static const std::vector<KeyDefault> defaults = make_defaults();
  const auto found = std::ranges::find_if(defaults, [&](const KeyDefault& row) {
    return row.key == key && (row.architectures & architecture) != 0;
  });
  return found == defaults.end() ? nullptr : &*found;
}

const std::vector<ConfigRow>& config_rows() {
  constexpr ArchitectureSet kRotary = kRotaryArchitectures;
  static const std::vector<ConfigRow> rows = {
      {kGpt2, "n_layer", "num_layers", "num_hidden_layers"},
      {kGpt2, "n_embd", "hidden_size", "hidden_size"},
      {kGpt2, "n_head", "num_attention_heads", "num_attention_heads"},
      {kGpt2, "n_inner", "ffn_hidden_size"},
      {kGpt2, "n_positions", "max_position_embeddings", "max_position_embeddings"},
      {kGpt2, "layer_norm_epsilon", "norm_epsilon", {}, true},
      {kGpt2, "resid_pdrop", "hidden_dropout", {}, true},
      {kGpt2, "attn_pdrop", "attention_dropout", {}, true},

      {kRotary, "num_hidden_layers", "num_layers"},
      {kRotary, "hidden_size", "hidden_size"},
      {kRotary & ~kFalcon, "intermediate_size", "ffn_hidden_size"},
      {kFalcon, "ffn_hidden_size", "ffn_hidden_size"},
      {kRotary, "num_attention_heads", "num_attention_heads"},
      {kRotary & ~(kFalcon | kGptNeox), "num_key_value_heads", "num_query_groups"},
      {kFalcon, "num_kv_heads", "num_query_groups"},
      {kRotary & ~kDerivedHeadSize, "head_dim", "kv_channels"},
      {kMixtral, "num_local_experts", "num_experts", "num_experts"},
      {kQwenExpertArchitectures, "num_experts", "num_experts", "num_local_experts"},
      {kExpertArchitectures, "num_experts_per_tok", "moe_router_topk"},
      {kQwenExpertArchitectures, "moe_intermediate_size", "moe_ffn_hidden_size"},
      {kQwen2Moe, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"},
      {kExpertArchitectures, "router_aux_loss_coef", "moe_aux_loss_coeff", {}, true},
      {kRotary, "max_position_embeddings", "max_position_embeddings"},
      {kSiluArchitectures | kGemmas, "rms_norm_eps", "norm_epsilon", {}, true},
      {kStarcoder2, "norm_epsilon", "norm_epsilon", {}, true},
      {kGptNeox, "layer_norm_eps", "norm_epsilon", {}, true},
      {kFalcon, "layer_norm_epsilon", "norm_epsilon", {}, true},
      {kRotary, "attention_dropout", "attention_dropout", {}, true},
      {kStarcoder2, "residual_dropout", "hidden_dropout", {}, true},
      {kPhi3, "resid_pdrop", "hidden_dropout", {}, true},
      {kGptNeox | kFalcon, "hidden_dropout", "hidden_dropout", {}, true},
      {kGranite, "embedding_multiplier", "embedding_multiplier", {}, true},
      {kGranite, "residual_multiplier", "residual_multiplier", {}, true},
      {kGranite, "logits_scaling", "logits_scaling", {}, true},
      {kGranite, "attention_multiplier", "softmax_scale", {}, true},
      {kGemma2 | kGemma3, "attn_logit_softcapping", "attn_logit_softcapping", {}, true},
      {kGemma2 | kGemma3, "final_logit_softcapping", "final_logit_softcapping", {}, true},

      {kAll, "initializer_range", "init_method_std", {}, true},
      {kAll, "vocab_size", "vocab_size"}};
  return rows;
}

const std::vector<DecidedField>& decided_fields() {
  // What the classes of transformers compute without a key for it: the value of those that have it,
  // and of the rest.
  const megatron::FieldValue none;
  static const std::vector<DecidedField> fields = {
      {"position_embedding_type", "learned_absolute", kRotaryArchitectures, "rope"},
      {"normalization", "LayerNorm", kAllArchitectures & ~kGeluArchitectures, "RMSNorm"},
      {"swiglu", false, kSiluArchitectures, true},
      {"gated_linear_unit", false, kGemmas, true},
      {"geglu", false, kGemmas, true},
      {"add_bias_linear", true, kAllArchitectures & ~(kGpt2 | kGptNeox), false,
       kStarcoder2 | kFalcon},
      {"add_qkv_bias", false, kQwen2 | kQwen2Moe, true},
      {"qk_layernorm", false, kQwen3 | kQwen3Moe | kOlmos | kGemma3, true},
      {"qk_layernorm_across_heads", false, kOlmos, true},
      {"pre_layernorm", true, kOlmos, false},
      {"post_layernorm", false, kOlmos | kGemma2 | kGemma3, true},
      {"parallel_residual", false, kFalcon, true, kGptNeox},
      {"embedding_multiplier", 1.0, 0, 1.0, kGranite | kGemmas},
      {"residual_multiplier", 1.0, 0, 1.0, kGranite},
      {"logits_scaling", 1.0, 0, 1.0, kGranite},
      {"softmax_scale", none, 0, none, kGranite | kGemma2 | kGemma3},
      {"attn_logit_softcapping", none, 0, none, kGemma2 | kGemma3},
      {"final_logit_softcapping", none, 0, none, kGemma2 | kGemma3},
      {"rotary_base_local", none, 0, none, kLayeredRotary},
      {"softmax_type", "vanilla", 0, "vanilla"},
      {"rotary_percent", 1.0, 0, 1.0, kPartialRotary},
      {"no_rope_freq", none, 0, none, kSmolLm3},
      {"quick_geglu", false, 0, false},
      {"squared_relu", false, 0, false},
      {kZeroCenteredNorms, false, kGemmas, true},
      {"layernorm_zero_centered_gamma", false, kGemmas, true},
      {"apply_residual_connection_post_layernorm", false, 0, false},
      {"rotary_interleaved", false, 0, false},
      {"multi_latent_attention", false, 0, false},
      {"moe_router_score_function", "softmax", 0, "softmax"},
      {"moe_router_enable_expert_bias", false, 0, false},
      {"moe_router_num_groups", none, 0, none},
      {"moe_router_group_topk", none, 0, none},
      {"moe_router_topk_scaling_factor", none, 0, none},
      {"moe_shared_expert_intermediate_size", none, 0, none, kQwen2Moe},
      {"moe_shared_expert_gate", false, kQwen2Moe, true},
      {"moe_layer_freq", int64_t{1}, 0, int64_t{1}}};
  return fields;
}

bool is_decided_for(const DecidedField& field, ArchitectureSet architecture) {
  if ((field.read_by & architecture) != 0) return false;
  return !field.field.starts_with("moe_") || (architecture & kExpertArchitectures) != 0;
}

const std::vector<FixedKey>& fixed_keys() {
  // Keys with which transformers would compute something that Megatron's model does not.
  static const std::vector<FixedKey> keys = [] {
    std::vector<FixedKey> made = {
        {kGpt2, "scale_attn_weights", true},
        {kGpt2, "scale_attn_by_inverse_layer_idx", false},
        {kGpt2, "add_cross_attention", false},
        {kSiluArchitectures, "hidden_act", "silu"},
        {kLlama | kQwen3 | kQwen3Moe | kGranite | kOlmos | kSmolLm3 | kGemmas, "attention_bias",
         false},
        {kGptNeox, "attention_bias", true},
        {kLlama | kGranite | kSmolLm3, "mlp_bias", false},
        {kGemmas, "use_bidirectional_attention", false},
        {kFalcon, "alibi", false},
        {kFalcon, "new_decoder_architecture", true},
        {kFalcon, "parallel_attn", true},
        {kFalcon, "num_ln_in_parallel_attn", int64_t{2}},
        {kFalcon, "n_embed", {}, false},
        {kGptNeox | kFalcon, "head_dim", {}, false},
        {kQwen2Moe, "qkv_bias", true},
        {kQwenExpertArchitectures, "decoder_sparse_step", int64_t{1}},
        {kMixtral, "router_jitter_noise", 0.0},
        {kRotaryArchitectures & ~kPartialRotary, "partial_rotary_factor", 1.0, false},
        {kGptNeox, "partial_rotary_factor", {}, false},
        {kRotaryArchitectures, "default_rope_type", "default", false},
        {kAll, "is_causal", true, false},
        {kAll, "is_encoder_decoder", false, false}};
    for (const std::string_view key : kKeysOfAnyClass) made.push_back({kAll, key, {}, false});
    return made;
  }();
  return keys;
}

ArchitectureKeys keys_of(ArchitectureSet architecture) {
  switch (architecture) {
    case kGpt2:
      return {.activation = "activation_function",
              .dropout = "resid_pdrop",
              .embedding_dropout = "embd_pdrop"};
    case kStarcoder2:
      return {.activation = "hidden_act",
              .bias = "use_bias",
              .dropout = "residual_dropout",
              .embedding_dropout = "embedding_dropout"};
    case kPhi3:
      return {.dropout = "resid_pdrop",
              .embedding_dropout = "embd_pdrop",
              .rotary_share = "partial_rotary_factor"};
    case kGptNeox:
      return {.activation = "hidden_act",
              .dropout = "hidden_dropout",
              .rotary_base = "rotary_emb_base",
              .rotary_share = "rotary_pct"};
    case kFalcon:
      return {.activation = "activation", .bias = "bias", .dropout = "hidden_dropout"};
    case kGemma:
      return {.activation = "hidden_act"};
    case kGemma2:
    case kGemma3:
      return {.activation = "hidden_activation"};
    default:
      return {};
  }
}

bool is_neutral_key(std::string_view key) {
  return std::binary_search(std::begin(kNeutralKeys), std::end(kNeutralKeys), key);
}

}  // namespace meg::checkpoint
