#pragma once

#include "libmeg/model/gpt_config.h"

namespace meg::model::test {

inline GptConfig mixtral_8x7b() {
  GptConfig config;
  config.num_layers = 32;
  config.hidden_size = config.seq_length = 4096;
  config.ffn_hidden_size = config.moe_ffn_hidden_size = 14336;
  config.num_attention_heads = 32;
  config.num_query_groups = 8;
  config.kv_channels = 128;
  config.padded_vocab_size = 32000;
  config.swiglu = config.gated_linear_unit = true;
  config.normalization = "RMSNorm";
  config.add_bias_linear = false;
  config.untie_embeddings_and_output_weights = true;
  config.num_experts = 8;
  config.moe_router_topk = 2;
  return config;
}

/// Of that size, with many small experts, a shared one, and a first layer without any.
inline GptConfig many_small_experts() {
  GptConfig config = mixtral_8x7b();
  config.moe_layers.assign(32, true);
  config.moe_layers[0] = false;
  config.moe_shared_expert_intermediate_size = 2048;
  config.ffn_hidden_size = 10944;
  config.moe_ffn_hidden_size = 1408;
  config.num_experts = 64;
  config.moe_router_topk = 6;
  return config;
}

}  // namespace meg::model::test
