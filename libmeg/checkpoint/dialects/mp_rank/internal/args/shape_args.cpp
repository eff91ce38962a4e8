#include "libmeg/checkpoint/dialects/mp_rank/internal/args/shape_args.h"

#include <algorithm>
#include <string>

#include "libmeg/checkpoint/dialects/mp_rank/rank_tree.h"
#include "libmeg/model/hybrid_pattern.h"

namespace meg::checkpoint {

void set_shape_args(const model::GptConfig& model, TrainingArgs* args) {
  const auto set = [args](std::string_view name, const megatron::FieldValue& value) {
    args->set(name, arg_value(value));
  };
  set("num_layers", model.num_layers);
  set("encoder_num_layers", model.num_layers);
  set("hidden_size", model.hidden_size);
  set("ffn_hidden_size", model.ffn_hidden_size);
  set("num_attention_heads", model.num_attention_heads);
  set("kv_channels", model.kv_channels);
  // Without this flag Megatron does not look at num_query_groups.
  set("group_query_attention", model.num_query_groups != model.num_attention_heads);
  set("num_query_groups", model.num_query_groups);
  set("max_position_embeddings", model.max_position_embeddings);
  // Megatron asserts that max_position_embeddings is no less than the sequence length.
  const int64_t positions = model.max_position_embeddings;
  const int64_t length = std::min(positions, model.most_positions().value_or(positions));
  set("seq_length", length);
  set("encoder_seq_length", length);
  if (model.attention_window.has_value()) {
    args->set("window_size", window_size_arg(*model.attention_window));
  }
  set("padded_vocab_size", model.padded_vocab_size);
  set("make_vocab_size_divisible_by", model.make_vocab_size_divisible_by);
  set("add_position_embedding", model.position_embedding_type == "learned_absolute");
  set("use_rotary_position_embeddings", model.position_embedding_type == "rope");
}

void set_layout_args(const model::ParallelSizes& sizes, model::NameFamily names,
                     TrainingArgs* args) {
  const int64_t chunks = sizes.virtual_pipeline_model_parallel_size;
  const auto set = [args](std::string_view name, const megatron::FieldValue& value) {
    args->set(name, arg_value(value));
  };
  set("tensor_model_parallel_size", sizes.tensor_model_parallel_size);
  set("pipeline_model_parallel_size", sizes.pipeline_model_parallel_size);
  set("transformer_pipeline_model_parallel_size", sizes.pipeline_model_parallel_size);
  set("virtual_pipeline_model_parallel_size",
      chunks > 1 ? megatron::FieldValue(chunks) : megatron::FieldValue());
  // A converted checkpoint has one copy of each parameter: the run that loads it says how many
  // there will be.
  set("data_parallel_size", int64_t{1});
  set("context_parallel_size", int64_t{1});
  set("expert_model_parallel_size", int64_t{1});
  set("world_size", sizes.tensor_model_parallel_size * sizes.pipeline_model_parallel_size);
  set("sequence_parallel", false);
  const bool is_fused = model::has_fused_norms(names);
  set("transformer_impl", is_fused ? "transformer_engine" : "local");
  // Where this field is there, legacy names are those of the revisions that have it.
  if (!model::is_mcore(names)) set("use_legacy_models", true);
}

void set_dtype_args(DType dtype, TrainingArgs* args) {
  args->set("fp16", {dtype == DType::kFloat16});
  args->set("bf16", {dtype == DType::kBFloat16});
  args->set("params_dtype",
            {ArgValue::Global{.module = "torch", .name = std::string(dtype_name(dtype))}});
}

Result<PickleId> add_made_args(const MegatronCheckpoint& checkpoint,
                               const model::ParallelSizes& sizes, model::NameFamily names,
                               int64_t vocab_rows, PickleGraph* graph) {
  model::GptConfig model = checkpoint.config();
  model.padded_vocab_size = vocab_rows;
  TrainingArgs args;
  set_shape_args(model, &args);
  const auto set = [&args](std::string_view name, const megatron::FieldValue& value) {
    args.set(name, arg_value(value));
  };
  set("position_embedding_type", model.position_embedding_type);
  set("normalization", model.normalization);
  set("swiglu", model.swiglu);
  set("add_bias_linear", model.add_bias_linear);
  set("add_qkv_bias", model.add_qkv_bias);
  set("qk_layernorm", model.qk_layernorm);
  set("untie_embeddings_and_output_weights", model.untie_embeddings_and_output_weights);
  set_layout_args(sizes, names, &args);
  if (names == model::NameFamily::kHybrid) {
    const int64_t segments =
        sizes.pipeline_model_parallel_size * sizes.virtual_pipeline_model_parallel_size;
    const model::HybridPattern pattern = {
        .segments = std::vector(static_cast<size_t>(segments), model.num_layers / segments),
        .has_experts = model.num_experts.has_value()};
    // Attention and MLP layers count each for itself in a pattern.
    set("num_layers", 2 * model.num_layers);
    set("encoder_num_layers", 2 * model.num_layers);
    set("hybrid_layer_pattern", model::hybrid_pattern_text(pattern));
  }
  set_dtype_args(checkpoint.parameters()[0].tensors[0].dtype, &args);
  RankTree tree;
  const PickleId made = tree.args(args);
  return PickleCopier(tree.graph(), *graph).copy(made);
}

}  // namespace meg::checkpoint
