#include "libmeg/model/foreign_models.h"

#include <re2/re2.h>

#include <algorithm>

namespace meg::model {
namespace {

/// Names that models of another kind alone have, or parts of models, with Megatron's argument.
struct ForeignRow {
  const char* pattern;  ///< RE2 over a part of the name.
  std::string_view model;
};

// The most specific names stand first: BERT's head shares names with T5's, and RETRO and multimodal
// models have modules that are called as T5's. Parts of a decoder come last: any kind of model may
// have them.
constexpr ForeignRow kForeignRows[] = {
    {R"((?:^|\.)(?:binary_head|pooler|tokentype_embeddings|lm_head\.(?:dense|layer_?norm|norm))\.)",
     "BERT"},
    {R"(\.retriever\.|\.cross_attention\.encoder\.)", "RETRO (retro_add_retriever)"},
    {R"(^vision_|^language_model\.decoder\..*\.linear_)", "a multimodal model"},
    {R"((?:^|\.)(?:inter_attention|cross_attention|cross_attn|post_inter_attention_layernorm)\.)",
     "T5"},
    {R"(^language_model\.decoder\.|^encoder\.|(?:^|\.)lm_head\.(?:bias|output_layer\.bias)$)",
     "T5"},
    {R"(^sequential\.\d+\.|^gpt_neox\.)", "GPT-NeoX"},
    {R"(\.attn\.attention\.)", "GPT-Neo"},
    {R"(^mtp\.)", "multi-token prediction (mtp_num_layers)"},
    {R"(\.self_attention\.(?:linear_q(?:_down|_up)?_proj|linear_q?kv_(?:down|up)_proj|kv_layernorm)\.)",
     "multi-latent attention (multi_latent_attention)"},
    {R"(\.mixer\.)", "Mamba layers (hybrid_layer_pattern)"},
    {R"(\.self_attention\.(?:in_proj|conv1d|A_log|dt_bias|out_norm|out_proj)(?:\.|$))",
     "linear attention (experimental_attention_variant)"},
    {R"(\.core_attention\.indexer\.)", "sparse attention (experimental_attention_variant)"},
    {R"(\.fc[12]_latent_proj\.)", "experts in a latent space (moe_latent_size)"},
    {R"(_quantizer\.)", "quantized layers (ModelOpt's quantizers)"},
};

}  // namespace

std::optional<ForeignParameter> foreign_parameter(std::span<const std::string> names) {
  // Most files have none, and compiling the patterns takes longer than reading one.
  if (names.empty()) return std::nullopt;
  for (const ForeignRow& row : kForeignRows) {
    const RE2 pattern(row.pattern, RE2::Latin1);
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return RE2::PartialMatch(name, pattern);
    });
    if (found != names.end()) return ForeignParameter{*found, row.model};
  }
  return std::nullopt;
}

}  // namespace meg::model
