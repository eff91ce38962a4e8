#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "libmeg/model/parameter_table.h"

namespace meg::model {

/// What a dimension of a merged parameter counts.
enum class Extent : uint8_t {
  kNone,         ///< No such dimension.
  kVocabulary,   ///< padded_vocab_size
  kPositions,    ///< max_position_embeddings
  kHidden,       ///< hidden_size
  kQueryNorm,    ///< kv_channels, of all heads where qk_layernorm_across_heads
  kKeyNorm,      ///< The same of query groups.
  kHeads,        ///< num_attention_heads
  kProjection,   ///< num_attention_heads * kv_channels
  kQkvRows,      ///< GptConfig::qkv_rows()
  kMlpRows,      ///< GptConfig::mlp_rows()
  kFfn,          ///< ffn_hidden_size
  kExpertCount,  ///< num_experts
  kOne,
  kSharedRows,  ///< As kMlpRows, of shared experts.
  kSharedFfn,   ///< moe_shared_expert_intermediate_size
};

/// Which models have a parameter.
enum class Presence : uint8_t {
  kAlways,
  kLearnedPositions,  ///< position_embedding_type learned_absolute
  kLinearBias,        ///< add_bias_linear
  kQkvBias,           ///< add_bias_linear or add_qkv_bias
  kPreNorm,           ///< pre_layernorm
  kPreNormBias,       ///< pre_layernorm and normalization LayerNorm
  kPostNorm,          ///< post_layernorm
  kPostNormBias,      ///< post_layernorm and normalization LayerNorm
  kNormBias,          ///< normalization LayerNorm
  kQkNorm,            ///< qk_layernorm
  kQkNormBias,        ///< both of these
  kSoftmaxOffset,     ///< softmax_type learnable
  kUntied,            ///< untie_embeddings_and_output_weights
  kTiedCopy,          ///< Tied, and the last of several pipeline stages.
  kExperts,           ///< num_experts
  kRouterBias,        ///< and add_bias_linear
  kSharedExperts,     ///< moe_shared_expert_intermediate_size
  kSharedGate,        ///< and moe_shared_expert_gate
  kSharedBias,        ///< and add_bias_linear
  kUntold,            ///< Not determined by any field that is read.
};

/// `weight` or `bias` of a module.
struct ParameterRow {
  Partition partition;
  Presence presence;
  std::array<Extent, 2> extents;  ///< Of the merged tensor.
};

/// How a family spells a module, and its place in the order.
struct Spelling {
  /// The part before "weight" or "bias", with {} for the layer's number; empty if the family has no
  /// such module.
  std::string_view stem;
  int order;  ///< Place within its placement in the family's named_parameters().
};

inline constexpr size_t kNameFamilyCount = 6;

/// A module of GPT that has parameters.
struct ModuleRow {
  Placement placement;
  bool has_extra_state;                              ///< Since core_v0.5.
  std::array<Spelling, kNameFamilyCount> spellings;  ///< By NameFamily.
  std::string_view legacy_short;                     ///< Legacy's later spelling, if there is one.
  ParameterRow weight;
  ParameterRow bias;  ///< With extents kNone the module never has one.
  /// Name of a replicated tensor of the bias's shape beside them that no optimizer updates, which
  /// models with moe_router_enable_expert_bias have; empty: none.
  std::string_view buffer = {};
  std::string_view weight_name = "weight";  ///< What the weight is called.

  /// The part before "weight" or "bias" in the canonical name.
  std::string_view canonical_stem() const {
    return placement == Placement::kOutput && weight.presence == Presence::kTiedCopy
               ? spellings[static_cast<size_t>(NameFamily::kLegacy)].stem
               : spellings[static_cast<size_t>(NameFamily::kMcoreLocal)].stem;
  }
};

/// Names that are recognized but partitioned by no rule of the table.
struct OtherNameRow {
  std::string_view pattern;  ///< RE2 over the whole name; group 1 is the layer's number.
  Placement placement;
  bool is_extra_state;
  bool is_expert;
};

/// The rows of GPT. If two have the same spelling, the first one applies.
std::span<const ModuleRow> gpt_module_rows();

/// The rows that are tried after those, in order.
std::span<const OtherNameRow> gpt_other_name_rows();

}  // namespace meg::model
