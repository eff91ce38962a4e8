#include "libmeg/model/gpt_extensions.h"

namespace meg::model {

std::span<const ExtensionField> extension_fields() {
  static const ExtensionField fields[] = {
      {"pre_layernorm", true},
      {"post_layernorm", false},
      {"qk_layernorm_across_heads", false},
      {"parallel_residual", false},
      {"geglu", false},
      {"embedding_multiplier", 1.0},
      {"residual_multiplier", 1.0},
      {"logits_scaling", 1.0},
      // The name of megatron-core's TransformerConfig, which no flag sets.
      {"softmax_scale", megatron::FieldValue()},
      {"attn_logit_softcapping", megatron::FieldValue()},
      {"final_logit_softcapping", megatron::FieldValue()},
      {"rotary_base_local", megatron::FieldValue()}};
  return fields;
}

}  // namespace meg::model
