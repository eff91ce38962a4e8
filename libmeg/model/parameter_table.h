#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::model {

/// How tensor parallelism partitions a parameter, and how its rows are laid out.
enum class Partition : uint8_t {
  kReplicated,  ///< Every rank holds the whole.
  kRows,        ///< Dimension 0.
  kColumns,     ///< Dimension 1.
  kVocabulary,  ///< Dimension 0, padded to the padded vocabulary.
  kQkv,         ///< Dimension 0, group after group; see shard_axes.
  kGated,       ///< Dimension 0: gate and up halves, each divided; kRows if not gated_linear_unit.
};

/// Where in the model a parameter lives.
enum class Placement : uint8_t {
  kEmbedding,  ///< First pipeline stage.
  kLayer,      ///< The stage and chunk of its layer.
  kFinal,      ///< Last stage: the final norm.
  kOutput,  ///< Last stage: the output layer of an untied model, or the tied copy of the embedding.
};

/// Families of spellings. kOld and kFlat are read, not written.
enum class NameFamily : uint8_t {
  kLegacy,      ///< language_model.encoder.layers.N.self_attention.query_key_value ...
  kOld,         ///< v1.0, v2.0: language_model.transformer.layers.N.attention ...
  kFlat,        ///< 2019, DeepSpeedExamples: transformer.layers.N.attention ..., no nesting.
  kMcoreLocal,  ///< decoder.layers.N.self_attention.linear_qkv, input_layernorm ...
  kMcoreTransformerEngine,  ///< The same with fused norms: linear_qkv.layer_norm_weight ...
  /// HybridModel of core 0.17 and later: like kMcoreTransformerEngine, except that attention and
  /// MLP are separate layers (2 n and 2 n + 1 for layer n), and the final norm is
  /// decoder.final_norm.
  kHybrid,
};

/// "legacy", "old", "flat", "mcore", "mcore (Transformer Engine)" or "hybrid".
std::string_view name_family_text(NameFamily family);

/// Whether these are names of mcore models.
bool is_mcore(NameFamily family);

/// Whether norms are named as parts of the linear modules that follow them.
bool has_fused_norms(NameFamily family);

/// The names of an mcore model whose layers --transformer-impl chose: "transformer_engine" or
/// "local".
NameFamily mcore_family(std::string_view transformer_impl);

/// The canonical name of the embedding's copy that the last stage of a tied model holds. mcore
/// spells it output_layer.weight, like an untied output layer: match() treats that as untied, and
/// only args.untie_embeddings_and_output_weights tells. spell() knows the copy in every family.
inline constexpr std::string_view kTiedCopyName = "word_embeddings_for_head.weight";

/// What the table knows about a parameter's name.
struct ParameterMatch {
  /// The name used for comparison: mcore's local name with {} for the layer's number, such as
  /// "decoder.layers.{}.self_attention.linear_qkv.weight"; kTiedCopyName for the tied copy. User
  /// rules: the name itself with {}, unless a built-in row knows it too.
  std::string canonical;
  /// The name as found with {} for the layer's number.
  std::string spelling;
  std::optional<int64_t> layer;  ///< The number found in the name: counts from 0 in every chunk.
  Partition partition = Partition::kReplicated;
  Placement placement = Placement::kLayer;
  /// Whether it is not a parameter but state that is copied (`..._extra_state`) or rebuilt by
  /// readers (`rotary_pos_emb.inv_freq`).
  bool is_extra_state = false;
  /// The expert's number, counted from 0 on every expert-parallel rank. It is part of the canonical
  /// name, which has the form of sequential_expert_name(), and of the spelling.
  std::optional<int64_t> expert;
  /// Whether it is a tensor that no optimizer updates (`router.expert_bias`), with a dtype of its
  /// own.
  bool is_buffer = false;
  /// Whether it is part of a mixture of experts that no rule supports: readers refuse it by name.
  bool is_expert = false;

  bool has_optimizer_state() const { return !is_extra_state && !is_buffer; }

  /// Families with this spelling: several if they agree (as on the embedding), all if the name does
  /// not tell (user rules, rotary tables).
  std::vector<NameFamily> families;
};

/// The single place that defines how parameters are named, partitioned and placed. Rules are data:
/// patterns (RE2) over the flat name, nested keys joined by dots
/// (`language_model.embedding.word_embeddings.weight`).
class ParameterTable {
 public:
  /// GPT in all families.
  static Result<ParameterTable> gpt();

  ParameterTable(ParameterTable&&) noexcept;
  ParameterTable& operator=(ParameterTable&&) noexcept;
  ~ParameterTable();

  /// Adds a user's rows, which come before the built-in ones. Text: one row a line, `#` comments:
  ///
  ///     PATTERN  PARTITION  [PLACEMENT]
  ///     decoder\.layers\.(\d+)\.adapter\.down\.weight  rows
  ///
  /// PATTERN must match the whole flat name; its first group, if any, is the layer's number (a name
  /// whose group is not a number is not matched). If a built-in row also knows the name, only
  /// partition and placement change. PARTITION: replicated, rows, columns, vocabulary, qkv or
  /// gated. PLACEMENT: embedding, layer (the default if the pattern has a group), final or output.
  /// Errors name `name`, the line and the token.
  Status add_rules(std::string_view text, const std::string& name);

  /// nullopt if no rule knows the name. is_hybrid: layers in names are numbered as in a hybrid
  /// model, and the match has the number of the GPT layer; nullopt also for attention in an odd
  /// layer and for an MLP in an even one.
  std::optional<ParameterMatch> match(std::string_view flat_name, bool is_hybrid = false) const;

  /// The flat spelling of a canonical name in another family, with {} for the layer's number.
  /// Modules' `_extra_state` too. norm_spelling_is_short: uses legacy's later spelling (input_norm)
  /// instead of input_layernorm. nullopt if the family has no such parameter, and for names of user
  /// rules, which have only one name.
  std::optional<std::string> spell(std::string_view canonical, NameFamily family,
                                   bool norm_spelling_is_short = false) const;

  /// The place of a canonical name within its placement (embedding, layer, ...) in a family's
  /// named_parameters() order: optimizer ids follow it. Unknown names come last, all with the same
  /// number, so that a stable sort keeps their order.
  int order(std::string_view canonical, NameFamily family) const;

  /// Canonical names of modules whose `_extra_state` a family's reader asks for, inside and outside
  /// layers, such as "decoder.layers.{}.self_attention.linear_proj", in the order of the state
  /// dict. output_layer's is there wherever the module is: mcore has it on every last stage, tied
  /// or not; legacy only untied. Legacy readers ask since core_v0.5, not before; old and flat
  /// never.
  std::vector<std::string> extra_state_modules(NameFamily family) const;

 private:
  struct State;
  explicit ParameterTable(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// "decoder.layers.{}.mlp.linear_fc1.weight", 7 -> "decoder.layers.7.mlp.linear_fc1.weight", of
/// kHybrid "decoder.layers.15.mlp.linear_fc1.weight".
std::string with_layer(std::string_view name, int64_t layer,
                       NameFamily family = NameFamily::kMcoreLocal);

/// The part of a GPT layer to which a name belongs, which a hybrid model has as layers of their
/// own: 0 attention, 1 the MLP. name: with {} for the layer's number.
int64_t hybrid_half(std::string_view name);

/// The keys under which a flat name is nested in `model` (the keys of a legacy encoder stay flat):
/// legacy "language_model.encoder.layers.0.mlp.dense_h_to_4h.bias" ->
/// {"language_model", "encoder", "layers.0.mlp.dense_h_to_4h.bias"}; mcore names: one key.
std::vector<std::string> nested_keys(std::string_view flat_name, NameFamily family);

/// Whether Megatron applies weight decay to this parameter: it has two or more dimensions and is
/// not a bias.
/// Mirrors Megatron-LM's get_param_groups: `name.endswith(".bias") or len(param.shape) == 1`.
bool has_weight_decay(std::string_view flat_name, size_t dimensions);

}  // namespace meg::model
