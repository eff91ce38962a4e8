#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/model/gpt_config.h"
#include "tools/common/flags.h"

namespace meg::tools {

/// The flags that give a model its shape, without --seq-length (see DataFlags). What is not given
/// stays empty: validate_args' defaults are GptConfig::from_fields'.
struct ModelFlags {
  std::optional<int64_t> num_layers, hidden_size, ffn_hidden_size, num_attention_heads;
  std::optional<int64_t> kv_channels, num_query_groups, max_position_embeddings;
  std::optional<int64_t> make_vocab_size_divisible_by;
  bool group_query_attention = false;
  bool swiglu = false;
  bool disable_bias_linear = false;
  bool add_qkv_bias = false;
  bool qk_layernorm = false;
  bool untie_embeddings_and_output_weights = false;
  bool use_rotary_position_embeddings = false;
  std::optional<std::string> position_embedding_type, normalization;
};

void declare_model_flags(Flags& flags, ModelFlags& model);

/// The same as fields of Megatron's args: a switch that is not given is False, a value that is not
/// given is missing. `model` must outlive it.
FieldLookup model_fields(const ModelFlags& model);

}  // namespace meg::tools
