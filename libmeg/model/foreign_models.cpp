#include "libmeg/model/foreign_models.h"

#include <re2/re2.h>

#include <algorithm>

namespace meg::model {
namespace {

/// Names that models of another kind alone have.
struct ForeignRow {
  const char* pattern;  ///< RE2 over a part of the name.
  std::string_view model;
};

// BERT's head shares names with T5's, so what tells BERT stands first.
constexpr ForeignRow kForeignRows[] = {
    {R"((?:^|\.)(?:binary_head|pooler|tokentype_embeddings|lm_head\.(?:dense|layer_?norm|norm))\.)",
     "BERT"},
    {R"((?:^|\.)(?:inter_attention|cross_attention|cross_attn|post_inter_attention_layernorm)\.)",
     "T5"},
    {R"(^language_model\.decoder\.|(?:^|\.)lm_head\.(?:bias|output_layer\.bias)$)", "T5"},
    {R"(^sequential\.\d+\.|^gpt_neox\.)", "GPT-NeoX"},
    {R"(\.attn\.attention\.)", "GPT-Neo"},
};

}  // namespace

std::string_view foreign_model(std::span<const std::string> names) {
  for (const ForeignRow& row : kForeignRows) {
    const RE2 pattern(row.pattern, RE2::Latin1);
    const bool has_one = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return RE2::PartialMatch(name, pattern);
    });
    if (has_one) return row.model;
  }
  return {};
}

}  // namespace meg::model
