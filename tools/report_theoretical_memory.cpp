// Says what memory a model will need for training. Stands for Megatron-LM
// tools/report_theoretical_memory.py.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "libmeg/model/theoretical_memory.h"
#include "libmeg/model/vocab_padding.h"
#include "libmeg/tokenizer/open_tokenizer.h"
#include "tools/common/flags.h"
#include "tools/common/json_output.h"
#include "tools/common/megatron_flags.h"
#include "tools/common/model_flags.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

constexpr int kUsageError = 2;
constexpr int64_t kMost = int64_t{1} << 30;

struct Arguments {
  ModelFlags model;
  std::optional<int64_t> seq_length, vocab_size, padded_vocab_size;
  TokenizerOptions tokenizer;
  TheoreticalMemoryOptions memory;
  std::optional<int64_t> layers_per_virtual_stage;
  std::optional<std::string> recompute_granularity;
  bool recompute_activations = false;
  bool json = false;
};

void declare_vocabulary(Flags& flags, Arguments& arguments) {
  flags.group("Vocabulary");
  flags.value("--padded-vocab-size", &arguments.padded_vocab_size, "N", "rows of the embedding")
      .range(1, kMost);
  flags.value("--vocab-size", &arguments.vocab_size, "N", "or tokens, which are padded")
      .range(1, kMost);
  flags.value("--tokenizer-type", &arguments.tokenizer.tokenizer_type, "TYPE",
              "or a tokenizer that counts them; else GPT2BPETokenizer");
  flags.value("--vocab-file", &arguments.tokenizer.vocab_file, "FILE", "its vocabulary");
  flags.value("--merge-file", &arguments.tokenizer.merge_file, "FILE", "its merges");
  flags.value("--tokenizer-model", &arguments.tokenizer.tokenizer_model, "FILE", "its model");
}

void declare_run(Flags& flags, Arguments& arguments) {
  TheoreticalMemoryOptions& memory = arguments.memory;
  flags.group("Run");
  const auto size = [&](const char* name, auto* target, const char* help) {
    return flags.value(name, target, "N", help).range(1, kMost);
  };
  size("--seq-length", &arguments.seq_length, "tokens of a sample");
  size("--micro-batch-size", &memory.micro_batch_size, "samples of a rank at once");
  size("--num-microbatches", &memory.num_microbatches,
       "micro-batches of a step, where they may be fewer than the pipeline's stages");
  size("--tensor-model-parallel-size", &memory.sizes.tensor_model_parallel_size,
       "ranks that share a layer")
      .old_name("--model-parallel-size");
  size("--pipeline-model-parallel-size", &memory.sizes.pipeline_model_parallel_size,
       "ranks that share the layers");
  size("--num-layers-per-virtual-pipeline-stage", &arguments.layers_per_virtual_stage,
       "layers of a chunk where a stage has several");
  size("--data-parallel-size", &memory.data_parallel_size,
       "ranks that share the distributed optimizer");
  flags.toggle("--use-distributed-optimizer", &memory.use_distributed_optimizer,
               "masters and moments are shared");
  flags.toggle("--sequence-parallel", &memory.sequence_parallel,
               "tensor-parallel ranks share norms and dropout");
  flags.toggle("--recompute-activations", &arguments.recompute_activations,
               "--recompute-granularity selective");
  flags
      .value("--recompute-granularity", &arguments.recompute_granularity, "WHAT",
             "activations that the backward pass computes anew")
      .choices({"selective", "full"});
}

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("report_theoretical_memory",
              "says how much memory weights, optimizer and activations of a model need on the "
              "rank that needs most.");
  declare_model_flags(flags, arguments.model);
  declare_vocabulary(flags, arguments);
  declare_run(flags, arguments);
  flags.group("Output");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.others(megatron_switches(), Arity::kSwitch);
  flags.others(megatron_values(), Arity::kValue);
  flags.others(megatron_lists(), Arity::kList);
  return flags.parse(argc, argv);
}

Result<int64_t> vocab_size(const Arguments& arguments) {
  TokenizerOptions options = arguments.tokenizer;
  const bool has_tokenizer = !options.tokenizer_type.empty() || !options.vocab_file.empty();
  if (!has_tokenizer) {
    if (arguments.vocab_size) return *arguments.vocab_size;
    return make_error(StatusCode::kInvalidArgument,
                      "--vocab-size: expected it, --padded-vocab-size or a tokenizer, found none");
  }
  if (options.tokenizer_type.empty()) options.tokenizer_type = "GPT2BPETokenizer";
  options.vocab_size = arguments.vocab_size;
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, open_tokenizer(options));
  return tokenizer->vocab_size();
}

Result<GptConfig> config_of(const Arguments& arguments) {
  MEG_ASSIGN_OR_RETURN(GptConfig config, GptConfig::from_fields(model_fields(arguments.model)));
  config.seq_length = arguments.seq_length.value_or(config.max_position_embeddings);
  if (config.seq_length == 0) {
    return make_error(StatusCode::kInvalidArgument, "--seq-length: expected it, found none");
  }
  if (arguments.padded_vocab_size) {
    config.padded_vocab_size = *arguments.padded_vocab_size;
    return config;
  }
  MEG_ASSIGN_OR_RETURN(const int64_t tokens, vocab_size(arguments));
  MEG_ASSIGN_OR_RETURN(config.padded_vocab_size,
                       padded_vocab_size(tokens, config.make_vocab_size_divisible_by,
                                         arguments.memory.sizes.tensor_model_parallel_size));
  return config;
}

Result<TheoreticalMemoryOptions> options_of(const Arguments& arguments, const GptConfig& config) {
  TheoreticalMemoryOptions options = arguments.memory;
  if (arguments.recompute_activations || arguments.recompute_granularity == "selective") {
    options.recompute_granularity = RecomputeGranularity::kSelective;
  } else if (arguments.recompute_granularity == "full") {
    options.recompute_granularity = RecomputeGranularity::kFull;
  }
  if (arguments.layers_per_virtual_stage) {
    const int64_t per_stage = config.num_layers / options.sizes.pipeline_model_parallel_size;
    const int64_t per_chunk = *arguments.layers_per_virtual_stage;
    if (per_stage % per_chunk != 0 || per_stage == 0) {
      return make_error(StatusCode::kInvalidArgument,
                        "--num-layers-per-virtual-pipeline-stage: expected a divisor of the {} "
                        "layers of a stage, found {}",
                        per_stage, per_chunk);
    }
    options.sizes.virtual_pipeline_model_parallel_size = per_stage / per_chunk;
  }
  return options;
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value.has_value() ? ordered_json(*value) : ordered_json();
}

ordered_json json_of(const GptConfig& config, const TheoreticalMemory& memory) {
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
  return object;
}

void print_lines(const GptConfig& config, const TheoreticalMemory& memory) {
  for (const std::string& line : theoretical_memory_lines(memory, true)) fmt::print("{}\n", line);
  // Megatron says no more where it has no formula for the other activations.
  if (memory.activation_bytes) return;
  fmt::print("Activation memory of {} transformer layers: {:.2f} MB ({:.0f} bytes)\n",
             config.num_layers, memory.layers_activation_bytes / (1024 * 1024),
             memory.layers_activation_bytes);
}

int fail_with_code(const Status& status) {
  fail(status);
  return status.code() == StatusCode::kInvalidArgument ? kUsageError : 1;
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  const Result<GptConfig> config = config_of(arguments);
  if (!config.has_value()) return fail_with_code(config.error());
  const Result<TheoreticalMemoryOptions> options = options_of(arguments, *config);
  if (!options.has_value()) return fail_with_code(options.error());
  const Result<TheoreticalMemory> memory = theoretical_memory(*config, *options);
  if (!memory.has_value()) return fail_with_code(memory.error());
  if (arguments.json) {
    print_json(json_of(*config, *memory));
  } else {
    print_lines(*config, *memory);
  }
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
