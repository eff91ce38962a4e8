#include "tools/pretrain_gpt_args.h"

#include "tools/common/open_weights.h"

namespace meg::tools {
namespace {

ArgValue optional_arg(const auto& value) {
  return value.has_value() ? ArgValue{*value} : ArgValue{};
}

/// The fields that say how the model computes; those of its shape are model_fields'.
TrainingArgs args_of(const PretrainFlags& run, const DataRun& data, const Vocabulary& vocabulary) {
  TrainingArgs args;
  const FieldLookup shape = model_fields(run.model);
  const auto set_shape = [&](const char* name) {
    const std::optional<FieldValue> field = shape(name);
    args.set(name, !field.has_value()
                       ? ArgValue{}
                       : std::visit([](const auto& value) { return ArgValue{value}; }, *field));
  };
  for (const char* name :
       {"num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels",
        "group_query_attention", "num_query_groups", "max_position_embeddings",
        "make_vocab_size_divisible_by", "swiglu", "normalization", "position_embedding_type",
        "use_rotary_position_embeddings", "add_bias_linear", "add_qkv_bias", "qk_layernorm",
        "untie_embeddings_and_output_weights"}) {
    set_shape(name);
  }
  args.set("seq_length", {data.config.sequence_length});
  if (!run.model.max_position_embeddings.has_value()) {
    args.set("max_position_embeddings", {data.config.sequence_length});
  }
  if (!run.model.make_vocab_size_divisible_by.has_value()) {
    args.set("make_vocab_size_divisible_by", {int64_t{128}});
  }
  args.set("vocab_size", {vocabulary.vocab_size});
  args.set("padded_vocab_size", {vocabulary.padded_vocab_size});
  args.set("tokenizer_type", {run.data.tokenizer.tokenizer_type});
  args.set("vocab_file", {run.data.tokenizer.vocab_file});
  args.set("merge_file", {run.data.tokenizer.merge_file});
  args.set("add_position_embedding", {!run.model.position_embedding_type.has_value() ||
                                      *run.model.position_embedding_type == "learned_absolute"});
  args.set("tensor_model_parallel_size", {int64_t{1}});
  args.set("pipeline_model_parallel_size", {int64_t{1}});
  args.set("virtual_pipeline_model_parallel_size", {});
  args.set("data_parallel_size", {int64_t{1}});
  args.set("world_size", {int64_t{1}});
  args.set("rank", {int64_t{0}});
  args.set("use_distributed_optimizer", {false});
  args.set("transformer_impl", {std::string("local")});
  args.set("fp16", {run.fp16});
  args.set("bf16", {run.bf16});
  args.set("params_dtype", {ArgValue::Global{"torch", run.fp16   ? "float16"
                                                      : run.bf16 ? "bfloat16"
                                                                 : "float32"}});
  args.set("hidden_dropout", {run.hidden_dropout});
  args.set("attention_dropout", {run.attention_dropout});
  args.set("init_method_std", {run.init_method_std});
  args.set("layernorm_epsilon", {run.layernorm_epsilon});
  args.set("norm_epsilon", {run.layernorm_epsilon});
  args.set("bias_gelu_fusion", {!run.no_bias_gelu_fusion});
  args.set("attention_softmax_in_fp32", {run.attention_softmax_in_fp32});
  args.set("apply_query_key_layer_scaling", {run.apply_query_key_layer_scaling});
  args.set("rotary_base", {run.rotary_base});
  args.set("rotary_percent", {run.rotary_percent});
  args.set("rotary_interleaved", {run.rotary_interleaved});
  args.set("recompute_granularity", run.recompute_activations
                                        ? ArgValue{std::string("selective")}
                                        : optional_arg(run.recompute_granularity));
  args.set("recompute_method", optional_arg(run.recompute_method));
  args.set("recompute_num_layers", optional_arg(run.recompute_num_layers));
  args.set("seed", {data.config.seed});
  args.set("micro_batch_size", {data.micro_batch_size});
  args.set("global_batch_size", {data.batches.global_batch_size()});
  args.set("train_iters", {data.train_iters});
  args.set("train_samples", optional_arg(run.data.length.train_samples));
  args.set("lr", optional_arg(run.lr));
  args.set("min_lr", {run.min_lr});
  args.set("weight_decay", {run.weight_decay});
  args.set("clip_grad", {run.clip_grad});
  args.set("adam_beta1", {run.adam_beta1});
  args.set("adam_beta2", {run.adam_beta2});
  args.set("adam_eps", {run.adam_eps});
  args.set("optimizer", {run.optimizer});
  args.set("ckpt_format", {run.ckpt_format});
  args.set("iteration", {int64_t{0}});
  return args;
}

/// What --use-checkpoint-args takes from the checkpoint, as far as its files say it.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: load_args_from_checkpoint.
constexpr const char* kCheckpointArgs[] = {"num_layers",
                                           "hidden_size",
                                           "ffn_hidden_size",
                                           "num_attention_heads",
                                           "num_query_groups",
                                           "group_query_attention",
                                           "kv_channels",
                                           "max_position_embeddings",
                                           "add_bias_linear",
                                           "add_qkv_bias",
                                           "qk_layernorm",
                                           "position_embedding_type",
                                           "rotary_base",
                                           "rotary_percent",
                                           "rotary_interleaved",
                                           "use_rotary_position_embeddings",
                                           "swiglu",
                                           "untie_embeddings_and_output_weights",
                                           "normalization",
                                           "add_position_embedding",
                                           "apply_layernorm_1p",
                                           "make_vocab_size_divisible_by",
                                           "layernorm_epsilon",
                                           "norm_epsilon",
                                           "bias_gelu_fusion",
                                           "padded_vocab_size"};

Status take_checkpoint_args(const PretrainFlags& run, TrainingArgs& args) {
  if (!run.load.has_value()) {
    return Status(StatusCode::kInvalidArgument, "--use-checkpoint-args needs --load");
  }
  MEG_ASSIGN_OR_RETURN(const MegatronCheckpoint checkpoint, open_weights(*run.load));
  for (const char* name : kCheckpointArgs) {
    const std::optional<FieldValue> found = checkpoint.arg(name);
    if (!found.has_value() || std::holds_alternative<std::monostate>(*found)) continue;
    args.set(name, std::visit([](const auto& value) { return ArgValue{value}; }, *found));
  }
  return {};
}

}  // namespace

Result<TrainingArgs> pretrain_args(const PretrainFlags& run, const DataRun& data,
                                   const Vocabulary& vocabulary) {
  TrainingArgs args = args_of(run, data, vocabulary);
  if (run.use_checkpoint_args) MEG_RETURN_IF_ERROR(take_checkpoint_args(run, args));
  return args;
}

}  // namespace meg::tools
