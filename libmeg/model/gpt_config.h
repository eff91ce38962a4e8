#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_value.h"

namespace meg::model {

/// The tokens that Megatron's arg window_size, `LEFT,RIGHT` or a tuple of the two, lets attention
/// look back over: LEFT and the query's own. nullopt: all, as with LEFT below 0.
Result<std::optional<int64_t>> attention_window(const megatron::FieldLookup& lookup);

/// The shape of a GPT model. Names are those of Megatron's args.
struct GptConfig {
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t ffn_hidden_size = 0;  ///< Size of one half if gated_linear_unit.
  int64_t num_attention_heads = 0;
  int64_t kv_channels = 0;       ///< Size of one attention head.
  int64_t num_query_groups = 0;  ///< num_attention_heads without group_query_attention.
  int64_t max_position_embeddings = 0;
  int64_t seq_length = 0;
  int64_t make_vocab_size_divisible_by = 128;
  int64_t padded_vocab_size = 0;  ///< 0: not known.
  bool swiglu = false;
  /// The first MLP matrix consists of two, the gate followed by the gated half: swiglu and every
  /// other gate.
  bool gated_linear_unit = false;
  bool add_bias_linear = true;
  bool add_qkv_bias = false;
  bool qk_layernorm = false;  ///< Norms over the heads of query and key.
  /// Whether these norms are one over all heads together instead of one over each.
  bool qk_layernorm_across_heads = false;
  bool pre_layernorm = true;    ///< Norms of what attention and MLP take in.
  bool post_layernorm = false;  ///< Norms of what attention and MLP add to the residual.
  bool untie_embeddings_and_output_weights = false;
  std::string position_embedding_type = "learned_absolute";
  std::string normalization = "LayerNorm";
  std::string transformer_impl = "local";
  /// What the softmax of attention sums beside the scores: "vanilla" nothing, "off-by-one" 1, as of
  /// a key without a value whose score is 0, "learnable" as of one whose score each head learns.
  std::string softmax_type = "vanilla";
  std::optional<int64_t> num_experts;  ///< Of a layer with experts; nullopt: dense MLPs only.
  std::vector<bool> moe_layers;        ///< Layers with experts (moe_layer_freq); empty: all.
  int64_t moe_ffn_hidden_size = 0;     ///< ffn_hidden_size of an expert.
  int64_t moe_router_topk = 2;         ///< Experts that compute a token.
  /// ffn_hidden_size of an MLP beside the experts that computes every token; nullopt: none.
  std::optional<int64_t> moe_shared_expert_intermediate_size;
  bool moe_shared_expert_gate = false;  ///< Its output is multiplied by a sigmoid.
  /// Routers choose by scores plus a bias that no optimizer updates.
  bool moe_router_enable_expert_bias = false;
  /// Tokens that attention looks back over, its own among them (window_size); nullopt: all.
  std::optional<int64_t> attention_window;
  std::vector<bool> window_layers;        ///< Those with the window; empty: all.
  std::vector<bool> layers_without_rope;  ///< Empty: every layer has it.

  /// Whether a layer has experts instead of a dense MLP.
  bool has_experts(int64_t layer) const;

  /// The number of these layers.
  int64_t num_moe_layers() const;

  /// has_experts() of each layer.
  std::vector<bool> layers_with_experts() const;

  /// The window of a layer; nullopt: it has none.
  std::optional<int64_t> window_of(int64_t layer) const;

  /// The longest sequence that this model is computed for: learned positions end. nullopt: any.
  std::optional<int64_t> most_positions() const;

  /// kInvalidArgument, with the field that limits it, for a sequence of more than most_positions().
  /// name: what the length is called.
  Status check_positions(std::string_view name, int64_t length) const;

  bool has_softmax_offset() const { return softmax_type != "vanilla"; }

  /// Whether query, key and value have biases: because all linear layers have, or just these.
  bool has_qkv_bias() const { return add_bias_linear || add_qkv_bias; }

  /// Reads Megatron's field names; fields that are missing or None get Megatron's defaults
  /// (ffn_hidden_size 4 * hidden_size, kv_channels hidden_size / num_attention_heads, ...).
  /// kInvalidArgument if num_layers, hidden_size or num_attention_heads is missing, a number is not
  /// positive, or the sizes cannot be divided; the message names the fields and their values.
  /// Mirrors Megatron-LM megatron/training/arguments.py: validate_args.
  static Result<GptConfig> from_fields(const megatron::FieldLookup& lookup);

  /// Rows of query, key and value of all heads: (num_attention_heads + 2 num_query_groups) *
  /// kv_channels.
  int64_t qkv_rows() const;

  /// Rows of the first MLP matrix: ffn_hidden_size, or twice that if gated_linear_unit.
  int64_t mlp_rows() const;

  /// The same of the shared expert's.
  int64_t shared_rows() const;

  /// Whether ranks hold whole query groups, or several of them share the rows of one (since core
  /// 0.16).
  bool divides_query_groups(int64_t tensor_model_parallel_size) const;

  /// Error if a tensor-parallel size does not divide the dimensions that it splits (heads, query
  /// groups, ffn_hidden_size, hidden_size); the message lists the sizes up to 64 that do.
  Status check_tensor_parallel_size(int64_t tensor_model_parallel_size) const;
};

}  // namespace meg::model
