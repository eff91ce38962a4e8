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

void set_hybrid_args(const model::PipelineLayout& layout, const model::GptConfig& config,
                     TrainingArgs* args) {
  model::HybridPattern pattern = {.segments = {}, .moe_layers = config.layers_with_experts()};
  for (int64_t chunk = 0; chunk < layout.chunks(); ++chunk) {
    for (int64_t stage = 0; stage < layout.stages(); ++stage) {
      pattern.segments.push_back(layout.layers(stage, chunk));
    }
  }
  const auto set_known = [args](std::string_view name, ArgValue value) {
    if (args->find(name) != nullptr) args->set(name, std::move(value));
  };
  // Attention and MLP layers count each for itself in a pattern, whose segments say all of how they
  // are split.
  args->set("num_layers", {2 * pattern.num_layers()});
  set_known("encoder_num_layers", {2 * pattern.num_layers()});
  for (const char* split :
       {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
        "pipeline_model_parallel_layout", "num_layers_per_virtual_pipeline_stage",
        "num_virtual_stages_per_pipeline_rank"}) {
    set_known(split, {});
  }
  set_known("moe_layer_freq", {int64_t{1}});
  set_known("account_for_embedding_in_pipeline_split", {false});
  set_known("account_for_loss_in_pipeline_split", {false});
  const bool is_older = args->find("hybrid_override_pattern") != nullptr &&
                        args->find("hybrid_layer_pattern") == nullptr;
  args->set(is_older ? "hybrid_override_pattern" : "hybrid_layer_pattern",
            {model::hybrid_pattern_text(pattern)});
  if (is_older) set_known("is_hybrid_model", {true});
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
    MEG_ASSIGN_OR_RETURN(const model::PipelineLayout layout,
                         model::PipelineLayout::create(model.num_layers, sizes));
    set_hybrid_args(layout, model, &args);
  }
  set_dtype_args(checkpoint.parameters()[0].tensors[0].dtype, &args);
  RankTree tree;
  const PickleId made = tree.args(args);
  return PickleCopier(tree.graph(), *graph).copy(made);
}

}  // namespace meg::checkpoint
