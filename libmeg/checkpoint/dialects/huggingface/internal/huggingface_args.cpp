#include "libmeg/checkpoint/dialects/huggingface/internal/huggingface_args.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::checkpoint {
namespace {

using Fields = std::vector<std::pair<std::string_view, megatron::FieldValue>>;

Fields shape_fields(const model::GptConfig& model) {
  return {{"num_layers", model.num_layers},
          {"encoder_num_layers", model.num_layers},
          {"hidden_size", model.hidden_size},
          {"ffn_hidden_size", model.ffn_hidden_size},
          {"num_attention_heads", model.num_attention_heads},
          {"kv_channels", model.kv_channels},
          {"group_query_attention", model.num_query_groups != model.num_attention_heads},
          {"num_query_groups", model.num_query_groups},
          {"max_position_embeddings", model.max_position_embeddings},
          {"seq_length", model.max_position_embeddings},
          {"encoder_seq_length", model.max_position_embeddings},
          {"padded_vocab_size", model.padded_vocab_size},
          {"make_vocab_size_divisible_by", model.make_vocab_size_divisible_by},
          {"add_position_embedding", model.position_embedding_type == "learned_absolute"},
          {"use_rotary_position_embeddings", model.position_embedding_type == "rope"}};
}

/// Of one rank: who reshapes the checkpoint changes them.
Fields layout_fields() {
  return {{"tensor_model_parallel_size", int64_t{1}},
          {"pipeline_model_parallel_size", int64_t{1}},
          {"transformer_pipeline_model_parallel_size", int64_t{1}},
          {"virtual_pipeline_model_parallel_size", megatron::FieldValue()},
          {"data_parallel_size", int64_t{1}},
          {"context_parallel_size", int64_t{1}},
          {"expert_model_parallel_size", int64_t{1}},
          {"world_size", int64_t{1}},
          {"sequence_parallel", false},
          {"transformer_impl", "local"}};
}

}  // namespace

TrainingArgs huggingface_args(const HuggingFaceCheckpoint& checkpoint) {
  TrainingArgs args;
  const auto set = [&args](std::string_view name, const megatron::FieldValue& value) {
    args.set(name, arg_value(value));
  };
  for (const auto& [name, value] : checkpoint.config.fields) set(name, value);
  for (const auto& [name, value] : shape_fields(checkpoint.model)) set(name, value);
  for (const auto& [name, value] : layout_fields()) set(name, value);
  // Revisions before core have it by its older name.
  args.set("layernorm_epsilon", *args.find("norm_epsilon"));
  set("fp16", checkpoint.dtype == DType::kFloat16);
  set("bf16", checkpoint.dtype == DType::kBFloat16);
  args.set("params_dtype", {ArgValue::Global{.module = "torch",
                                             .name = std::string(dtype_name(checkpoint.dtype))}});
  const bool is_gpt2 = checkpoint.config.architecture.bit == kGpt2;
  set("tokenizer_type", is_gpt2 ? "GPT2BPETokenizer" : "HuggingFaceTokenizer");
  for (const char* name : {"iteration", "consumed_train_samples", "consumed_valid_samples"}) {
    set(name, int64_t{0});
  }
  return args;
}

}  // namespace meg::checkpoint
