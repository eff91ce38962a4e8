#include "libmeg/checkpoint/convert/internal/imported_args.h"

#include <string>

namespace meg::checkpoint {
namespace {

void set_shape(const model::GptConfig& model, TrainingArgs* args) {
  const auto set = [args](std::string_view name, const megatron::FieldValue& value) {
    args->set(name, arg_value(value));
  };
  set("num_layers", model.num_layers);
  set("encoder_num_layers", model.num_layers);
  set("hidden_size", model.hidden_size);
  set("ffn_hidden_size", model.ffn_hidden_size);
  set("num_attention_heads", model.num_attention_heads);
  set("kv_channels", model.kv_channels);
  set("group_query_attention", model.num_query_groups != model.num_attention_heads);
  set("num_query_groups", model.num_query_groups);
  set("max_position_embeddings", model.max_position_embeddings);
  set("seq_length", model.max_position_embeddings);
  set("encoder_seq_length", model.max_position_embeddings);
  set("padded_vocab_size", model.padded_vocab_size);
  set("make_vocab_size_divisible_by", model.make_vocab_size_divisible_by);
  set("add_position_embedding", model.position_embedding_type == "learned_absolute");
  set("use_rotary_position_embeddings", model.position_embedding_type == "rope");
}

void set_layout(const ImportOptions& options, TrainingArgs* args) {
  const model::ParallelSizes& sizes = options.sizes;
  const int64_t chunks = sizes.virtual_pipeline_model_parallel_size;
  const auto set = [args](std::string_view name, const megatron::FieldValue& value) {
    args->set(name, arg_value(value));
  };
  set("tensor_model_parallel_size", sizes.tensor_model_parallel_size);
  set("pipeline_model_parallel_size", sizes.pipeline_model_parallel_size);
  set("transformer_pipeline_model_parallel_size", sizes.pipeline_model_parallel_size);
  set("virtual_pipeline_model_parallel_size",
      chunks > 1 ? megatron::FieldValue(chunks) : megatron::FieldValue());
  set("data_parallel_size", int64_t{1});
  set("context_parallel_size", int64_t{1});
  set("expert_model_parallel_size", int64_t{1});
  set("world_size", sizes.tensor_model_parallel_size * sizes.pipeline_model_parallel_size);
  set("sequence_parallel", false);
  const bool is_fused = options.names == model::NameFamily::kMcoreTransformerEngine;
  set("transformer_impl", is_fused ? "transformer_engine" : "local");
  set("use_legacy_models", !model::is_mcore(options.names));
}

}  // namespace

TrainingArgs imported_args(const HuggingFaceCheckpoint& checkpoint, const model::GptConfig& model,
                           const ImportOptions& options, DType dtype) {
  TrainingArgs args;
  for (const auto& [name, value] : checkpoint.config.fields) args.set(name, arg_value(value));
  set_shape(model, &args);
  set_layout(options, &args);
  // Revisions before core have it by its older name.
  args.set("layernorm_epsilon", *args.find("norm_epsilon"));
  args.set("fp16", {dtype == DType::kFloat16});
  args.set("bf16", {dtype == DType::kBFloat16});
  args.set("params_dtype",
           {ArgValue::Global{.module = "torch", .name = std::string(dtype_name(dtype))}});
  const bool is_gpt2 = checkpoint.config.architecture.bit == kGpt2;
  args.set("tokenizer_type", {std::string(is_gpt2 ? "GPT2BPETokenizer" : "HuggingFaceTokenizer")});
  args.set("iteration", {int64_t{0}});
  args.set("consumed_train_samples", {int64_t{0}});
  args.set("consumed_valid_samples", {int64_t{0}});
  return args;
}

}  // namespace meg::checkpoint
