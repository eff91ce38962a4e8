// Estimates the memory that a model will need for training. Stands for Megatron-LM
// tools/report_theoretical_memory.py.

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/model/hybrid_pattern.h"
#include "libmeg/model/rank_memory.h"
#include "libmeg/model/theoretical_memory.h"
#include "libmeg/model/virtual_stages.h"
#include "libmeg/model/vocab_padding.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMost = int64_t{1} << 30;
constexpr std::string_view kSame = "the estimate does not depend on it";

struct Arguments {
  megatron::ArgumentValues args;
  std::optional<int64_t> num_microbatches, data_parallel_size;
  bool json = false;

  // What finish() reads from args.
  std::optional<int64_t> padded_vocab_size;
  tokenizer::TokenizerOptions tokenizer;
  model::TheoreticalMemoryOptions memory;
  model::NumberFormats formats;
  model::VirtualStages virtual_stages;
};

/// Reads them as the optimizer keeps gradients.
void read_formats(megatron::FieldReader& args, model::NumberFormats& formats) {
  bool bf16 = false, fp16 = false, in_fp32 = false, in_bf16 = false;
  args.take("bf16", bf16);
  args.take("fp16", fp16);
  args.take("accumulate_allreduce_grads_in_fp32", in_fp32);
  args.take("grad_reduce_in_bf16", in_bf16);
  formats = {.sixteen_bit = bf16 || fp16, .widens_gradients = in_fp32 || (bf16 && !in_bf16)};
}

void read_args(megatron::FieldReader& args, Arguments& arguments) {
  model::TheoreticalMemoryOptions& memory = arguments.memory;
  args.take("padded_vocab_size", arguments.padded_vocab_size);
  arguments.tokenizer.take_fields(args);
  args.take("micro_batch_size", memory.micro_batch_size);
  args.take("tensor_model_parallel_size", memory.sizes.tensor_model_parallel_size);
  args.take("pipeline_model_parallel_size", memory.sizes.pipeline_model_parallel_size);
  args.take("expert_model_parallel_size", memory.sizes.expert_model_parallel_size);
  args.take("expert_tensor_parallel_size", memory.sizes.expert_tensor_parallel_size);
  arguments.virtual_stages.take_fields(args);
  memory.sizes.split.take_fields(args);
  args.take("use_distributed_optimizer", memory.use_distributed_optimizer);
  args.take("sequence_parallel", memory.sequence_parallel);
  args.parse("recompute_granularity", memory.recompute_granularity,
             model::parse_recompute_granularity);
  read_formats(args, arguments.formats);
  bool recompute_activations = false;
  args.take("recompute_activations", recompute_activations);
  if (recompute_activations) memory.recompute_granularity = model::RecomputeGranularity::kSelective;
}

/// What changes the numbers that a model computes, or which rank computes them, but neither a
/// parameter's size nor what is kept of a layer: command lines of trainings have them.
std::map<std::string_view, std::string_view> fields_without_memory() {
  std::map<std::string_view, std::string_view> fields;
  for (const char* field : {"activation_func_clamp_value",
                            "apply_residual_connection_post_layernorm",
                            "bias_gelu_fusion",
                            "data_parallel_random_init",
                            "ddp_bucket_size",
                            "ddp_num_buckets",
                            "glu_linear_offset",
                            "layernorm_epsilon",
                            "layernorm_zero_centered_gamma",
                            "moe_aux_loss_coeff",
                            "moe_expert_capacity_factor",
                            "moe_pad_expert_input_to_capacity",
                            "moe_router_bias_update_rate",
                            "moe_router_dtype",
                            "moe_router_group_topk",
                            "moe_router_load_balancing_type",
                            "moe_router_num_groups",
                            "moe_router_pre_softmax",
                            "moe_router_score_function",
                            "moe_router_topk_scaling_factor",
                            "moe_token_drop_policy",
                            "moe_z_loss_coeff",
                            "no_rope_freq",
                            "onnx_safe",
                            "openai_gelu",
                            "rope_scaling_factor",
                            "rope_type",
                            "rotary_base",
                            "rotary_interleaved",
                            "rotary_percent",
                            "rotary_seq_len_interpolation_factor",
                            "squared_relu",
                            "use_rope_scaling",
                            "use_tp_pp_dp_mapping"}) {
    fields.emplace(field, kSame);
  }
  return fields;
}

/// What can make no difference to what a model needs.
ArgumentScope scope() {
  std::vector<std::string> fields =
      megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
        (void)model::GptConfig::from_fields(lookup);
        megatron::FieldReader args(lookup);
        model::HybridArgs().take_fields(args);
        Arguments arguments;
        read_args(args, arguments);
      });
  return {.reads = std::move(fields),
          .required = {},
          .idle = {{megatron::Effect::kData, kSame},
                   {megatron::Effect::kSchedule, kSame},
                   {megatron::Effect::kOptimizer, kSame},
                   {megatron::Effect::kCheckpoint, "no checkpoint is read or written"},
                   {megatron::Effect::kLog, "no training log"}},
          .idle_fields = fields_without_memory()};
}

std::vector<std::string> missing_flags(const megatron::ArgumentValues& args) {
  std::vector<std::string> missing;
  const auto need = [&](std::string_view names, std::initializer_list<std::string_view> dests) {
    if (!args.has_any(dests)) missing.emplace_back(names);
  };
  need("--num-layers or --hybrid-layer-pattern",
       {"num_layers", "hybrid_layer_pattern", "hybrid_override_pattern"});
  need("--hidden-size", {"hidden_size"});
  need("--num-attention-heads", {"num_attention_heads"});
  need("--seq-length", {"seq_length", "max_position_embeddings"});
  // Where nothing else is missing, vocab_size() says what may stand for it.
  if (!missing.empty() && !args.given("tokenizer_type")) {
    need("--vocab-size, --padded-vocab-size or a tokenizer",
         {"vocab_size", "padded_vocab_size", "vocab_file"});
  }
  return missing;
}

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("report_theoretical_memory",
              "estimates the memory that weights, optimizer and activations of a model need on the "
              "most loaded rank.");
  flags.usage(
      "--num-layers N --hidden-size N --num-attention-heads N --seq-length N --padded-vocab-size "
      "N");
  flags.examples(
      {"report_theoretical_memory --num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
       "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --padded-vocab-size "
       "50304",
       "report_theoretical_memory --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
       "--seq-length 4096 --position-embedding-type rope --micro-batch-size 1 --padded-vocab-size "
       "32000 --tensor-model-parallel-size 4 --json"});
  flags.group("Flags of libmeg's own");
  flags
      .value("--data-parallel-size", &arguments.data_parallel_size, "N",
             "data-parallel size, over which the distributed optimizer is sharded")
      .range(1, kMost);
  flags
      .value("--num-microbatches", &arguments.num_microbatches, "N",
             "micro-batches per step, if there may be fewer than pipeline stages")
      .range(1, kMost);
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.also_requires([&] { return missing_flags(arguments.args); });
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kTraining), scope(),
                  &arguments.args);
  return flags.parse(argc, argv);
}

Status finish(Arguments& arguments) {
  MEG_ASSIGN_OR_RETURN(const auto pattern, model::take_hybrid_pattern(arguments.args));
  if (pattern.has_value()) {
    MEG_RETURN_IF_ERROR(model::take_hybrid_segments(*pattern, arguments.args));
  }
  const megatron::FieldLookup fields = arguments.args.lookup();
  megatron::FieldReader args(fields);
  read_args(args, arguments);
  arguments.memory.data_parallel_size = arguments.data_parallel_size.value_or(1);
  arguments.memory.num_microbatches = arguments.num_microbatches;
  return args.status();
}

Result<int64_t> vocab_size(const Arguments& arguments) {
  const tokenizer::TokenizerOptions& options = arguments.tokenizer;
  const bool has_tokenizer = arguments.args.given("tokenizer_type") || !options.vocab_file.empty();
  if (!has_tokenizer) {
    if (options.vocab_size) return *options.vocab_size;
    return make_error(StatusCode::kInvalidArgument,
                      "expected --vocab-size, --padded-vocab-size or a tokenizer, found none");
  }
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                       tokenizer::open_tokenizer(options));
  return tokenizer->vocab_size();
}

Result<model::GptConfig> config_of(const Arguments& arguments) {
  MEG_ASSIGN_OR_RETURN(model::GptConfig config,
                       model::GptConfig::from_fields(arguments.args.lookup()));
  if (config.seq_length == 0) config.seq_length = config.max_position_embeddings;
  if (config.max_position_embeddings == 0) config.max_position_embeddings = config.seq_length;
  if (arguments.padded_vocab_size) return config;
  MEG_ASSIGN_OR_RETURN(const int64_t tokens, vocab_size(arguments));
  MEG_ASSIGN_OR_RETURN(config.padded_vocab_size,
                       model::padded_vocab_size(tokens, config.make_vocab_size_divisible_by,
                                                arguments.memory.sizes.tensor_model_parallel_size));
  return config;
}

Result<model::TheoreticalMemoryOptions> options_of(const Arguments& arguments,
                                                   const model::GptConfig& config) {
  model::TheoreticalMemoryOptions options = arguments.memory;
  MEG_ASSIGN_OR_RETURN(options.sizes.virtual_pipeline_model_parallel_size,
                       arguments.virtual_stages.size(config.num_layers, options.sizes));
  options.microbatch_group_size_per_vp_stage =
      arguments.virtual_stages.microbatch_group_size_per_vp_stage;
  return options;
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value.has_value() ? ordered_json(*value) : ordered_json();
}

ordered_json json_of(const model::GptConfig& config, const model::TheoreticalMemory& memory,
                     const std::vector<model::RankMemory>& stages) {
  ordered_json object = json_object();
  object["padded_vocab_size"] = config.padded_vocab_size;
  object["parameters"] = {{"transformer_block", memory.transformer_block_parameters},
                          {"embedding_layers", memory.embedding_parameters},
                          {"total", memory.total_parameters},
                          {"most_loaded_shard", memory.most_loaded_shard_parameters},
                          {"other_shards", or_null(memory.other_shard_parameters)}};
  object["bytes"] = {{"weight_and_optimizer", memory.weight_and_optimizer_bytes},
                     {"activation", or_null(memory.activation_bytes)},
                     {"activation_of_transformer_layers", memory.layers_activation_bytes}};
  object["in_flight_microbatches"] = or_null(memory.in_flight_microbatches);
  for (const model::RankMemory& rank : stages) {
    object["rank_of_stage"].push_back({{"parameters", rank.parameters},
                                       {"weight_bytes", rank.parameter_bytes},
                                       {"gradient_bytes", rank.gradient_bytes},
                                       {"optimizer_bytes", rank.optimizer_bytes},
                                       {"layers_in_flight", rank.layers_in_flight},
                                       {"activation_bytes", rank.activation_bytes}});
  }
  return object;
}

void print_lines(const model::GptConfig& config, const model::TheoreticalMemory& memory,
                 const std::vector<model::RankMemory>& stages) {
  for (const std::string& line : model::theoretical_memory_lines(memory, true))
    fmt::print("{}\n", line);
  // Megatron says no more: without sequence parallelism its figure ignores recomputation and
  // scores.
  if (!memory.is_with_sequence_parallelism) {
    fmt::print("Activation memory of {} transformer layers: {:.2f} MB ({:.0f} bytes)\n",
               config.num_layers, memory.layers_activation_bytes / (1024 * 1024),
               memory.layers_activation_bytes);
  }
  for (const std::string& line : model::rank_memory_lines(stages)) fmt::print("{}\n", line);
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  if (const Status status = finish(arguments); !status.ok()) return fail_by_code(status);
  const Result<model::GptConfig> config = config_of(arguments);
  if (!config.has_value()) return fail_by_code(config.error());
  const Result<model::TheoreticalMemoryOptions> options = options_of(arguments, *config);
  if (!options.has_value()) return fail_by_code(options.error());
  const Result<model::TheoreticalMemory> memory = model::theoretical_memory(*config, *options);
  if (!memory.has_value()) return fail_by_code(memory.error());
  const Result<std::vector<model::RankMemory>> stages =
      model::rank_memory(*config, *options, arguments.formats, *memory);
  if (!stages.has_value()) return fail_by_code(stages.error());
  if (arguments.json) {
    print_json(json_of(*config, *memory, *stages));
  } else {
    print_lines(*config, *memory, *stages);
  }
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
