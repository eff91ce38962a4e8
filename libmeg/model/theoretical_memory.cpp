#include "libmeg/model/theoretical_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "libmeg/model/internal/memory_units.h"
#include "libmeg/text/printable.h"

// Megatron's estimate, term by term, so that its lines come out the same, and for the layers of any
// run the terms of Korthikanti et al., table 2, that theoretical_memory.h names.

namespace meg::model {
namespace {

constexpr double kBillion = 1e9;

Status check(const GptConfig& config, const TheoreticalMemoryOptions& options) {
  const auto need = [](std::string_view what, int64_t value) {
    if (value > 0) return Status();
    return make_error(StatusCode::kInvalidArgument,
                      "theoretical memory: {}: expected 1 or more, found {}", what, value);
  };
  MEG_RETURN_IF_ERROR(need("seq_length", config.seq_length));
  MEG_RETURN_IF_ERROR(need("padded_vocab_size", config.padded_vocab_size));
  MEG_RETURN_IF_ERROR(need("data_parallel_size", options.data_parallel_size));
  MEG_RETURN_IF_ERROR(need("micro_batch_size", options.micro_batch_size));
  MEG_RETURN_IF_ERROR(need("num_microbatches", options.num_microbatches.value_or(1)));
  const ParallelSizes& sizes = options.sizes;
  MEG_RETURN_IF_ERROR(config.check_tensor_parallel_size(sizes.tensor_model_parallel_size));
  return PipelineLayout::create(config.num_layers, sizes).status();
}

/// The inner sizes of all MLPs of a layer, added up. experts: those that count.
double inner_size(const GptConfig& config, bool has_experts, int64_t experts) {
  if (!has_experts) return real(config.ffn_hidden_size);
  return real(experts) * real(config.moe_ffn_hidden_size) +
         real(config.moe_shared_expert_intermediate_size.value_or(0));
}

double transformer_layer_parameters(const GptConfig& config, double norm_size, bool has_experts) {
  const double hidden = real(config.hidden_size);
  // Three MLP matrices instead of two.
  const double gated = config.gated_linear_unit ? 1.5 : 1.0;
  const double heads = real(config.num_attention_heads);
  const double query_ratio = real(config.kv_channels) * heads / hidden;
  const double attention =
      2 * hidden * hidden * (1 + real(config.num_query_groups) / heads) * query_ratio;
  const double inner = inner_size(config, has_experts, config.num_experts.value_or(0));
  return 2 * hidden * (inner * gated + norm_size) + attention;
}

void add_weights(const GptConfig& config, const TheoreticalMemoryOptions& options,
                 TheoreticalMemory& memory) {
  const double norm_size = config.normalization == "RMSNorm" ? 1 : 2;
  const double hidden = real(config.hidden_size);
  const double tensor = real(options.sizes.tensor_model_parallel_size);
  const double pipeline = real(options.sizes.pipeline_model_parallel_size);
  const double embedding = hidden * real(config.padded_vocab_size);
  const bool untied = config.untie_embeddings_and_output_weights;

  const int64_t with_experts = config.num_moe_layers();
  memory.transformer_block_parameters =
      transformer_layer_parameters(config, norm_size, false) *
          real(config.num_layers - with_experts) +
      transformer_layer_parameters(config, norm_size, true) * real(with_experts) +
      norm_size * hidden;
  memory.embedding_parameters = untied ? 2 * embedding : embedding;
  memory.total_parameters = memory.transformer_block_parameters + memory.embedding_parameters;

  const double stage = memory.transformer_block_parameters / pipeline;
  memory.most_loaded_shard_parameters = (stage + embedding) / tensor;
  if (untied && pipeline == 1) memory.most_loaded_shard_parameters += embedding / tensor;
  if (pipeline > 1) memory.other_shard_parameters = stage / tensor;
  const double bytes =
      // 16-bit weight and fp32 gradient stay whole on every rank; master weight and two moments, 12
      // bytes, are shared out.
      options.use_distributed_optimizer ? 6 + 12 / real(options.data_parallel_size) : 18;
  memory.weight_and_optimizer_bytes = memory.most_loaded_shard_parameters * bytes;
}

/// Bytes of one layer for b s h = 1 that tensor parallelism cuts: 24 with an inner size of 4 h.
/// Megatron has 18 + 4 ffn / h in all, 10 of which are kCutBySequenceParallelism, whether or not
/// there are experts.
double cut_by_tensor_parallelism(const GptConfig& config, double inner_size) {
  return 8 + 4 * inner_size / real(config.hidden_size);
}

/// The same that only sequence parallelism cuts: norms, their dropout, inputs of the projections.
constexpr double kCutBySequenceParallelism = 10;

/// Bytes of a layer's MLP for b s h = 1, as if its inner size were this. With experts the larger
/// kind of layers counts; of each expert that computes a token, its input and output are kept
/// sorted in 16 bits.
struct MlpActivations {
  double inner_size = 0;
  double sorted = 0;
};

MlpActivations mlp_activations(const GptConfig& config) {
  const MlpActivations dense = {.inner_size = real(config.ffn_hidden_size)};
  if (config.num_moe_layers() == 0) return dense;
  const MlpActivations experts = {.inner_size = inner_size(config, true, config.moe_router_topk),
                                  .sorted = 4 * real(config.moe_router_topk)};
  const auto bytes = [&](const MlpActivations& mlp) {
    return 4 * mlp.inner_size / real(config.hidden_size) + mlp.sorted;
  };
  const bool is_dense_larger =
      config.num_moe_layers() < config.num_layers && bytes(dense) > bytes(experts);
  return is_dense_larger ? dense : experts;
}

void add_layer_activations(const GptConfig& config, const TheoreticalMemoryOptions& options,
                           TheoreticalMemory& memory) {
  const double tensor = real(options.sizes.tensor_model_parallel_size);
  const double sequence = options.sequence_parallel ? tensor : 1;
  const double hidden_states =
      real(config.seq_length) * real(options.micro_batch_size) * real(config.hidden_size);
  const MlpActivations mlp = mlp_activations(config);
  double bytes = 0;  // for b s h = 1
  switch (options.recompute_granularity) {
    case RecomputeGranularity::kFull:
      // A layer's input in 16 bits; the rest is recomputed.
      bytes = 2 / sequence;
      break;
    case RecomputeGranularity::kNone:
      // Scores after the softmax and after dropout in 16 bits, and dropout's mask in one byte.
      bytes = 5 * real(config.num_attention_heads) * real(config.seq_length) /
              real(config.hidden_size) / tensor;
      [[fallthrough]];
    case RecomputeGranularity::kSelective:
      bytes += (kCutBySequenceParallelism + mlp.sorted) / sequence +
               cut_by_tensor_parallelism(config, mlp.inner_size) / tensor;
      break;
  }
  memory.layer_activation_bytes = hidden_states * bytes;
  // The first of p stages has num_layers / p layers, for p micro-batches at a time.
  memory.layers_activation_bytes = memory.layer_activation_bytes * real(config.num_layers);
}

/// Adds Megatron's estimate for the first pipeline stage.
void add_activations(const GptConfig& config, const TheoreticalMemoryOptions& options,
                     TheoreticalMemory& memory) {
  const bool in_sequence = options.sequence_parallel &&
                           options.recompute_granularity == RecomputeGranularity::kSelective;
  if (!in_sequence && !options.estimates_any_activations) return;
  memory.is_with_sequence_parallelism = in_sequence;
  const double pipeline = real(options.sizes.pipeline_model_parallel_size);
  const double chunks = real(options.sizes.virtual_pipeline_model_parallel_size);
  const double tensor = real(options.sizes.tensor_model_parallel_size);
  const double tokens = real(config.seq_length) * real(options.micro_batch_size);
  const double hidden = real(config.hidden_size);

  const double layer =
      tokens * hidden *
      (kCutBySequenceParallelism +
       (in_sequence ? cut_by_tensor_parallelism(config, real(config.ffn_hidden_size))
                    : 24 / tensor));
  memory.activation_bytes_per_layer = in_sequence ? layer / tensor : layer;
  // The ids of the embedding's input and its dropout, for every micro-batch in flight.
  double bytes =
      layer * real(config.num_layers) + 8 * tokens * pipeline + tokens * hidden * pipeline;
  if (chunks > 1) {
    // Interleaving multiplies what the first stage holds by this.
    const double penalty = 1 + (pipeline - 1) / (pipeline * chunks);
    memory.interleaved_schedule_memory_penalty = penalty;
    memory.in_flight_microbatches = static_cast<int64_t>(std::ceil(penalty * pipeline));
    bytes *= penalty;
  } else if (pipeline > 1) {
    const double in_flight = std::min(
        pipeline,
        real(options.num_microbatches.value_or(options.sizes.pipeline_model_parallel_size)));
    memory.in_flight_microbatches = static_cast<int64_t>(in_flight);
    bytes *= in_flight / pipeline;
  }
  if (pipeline == 1) {
    // What goes into the output layer, and the logits: in fp32, or in 16 bits.
    const double vocabulary = real(config.padded_vocab_size);
    bytes += in_sequence ? tokens * hidden * 4 * (1 + vocabulary / hidden)
                         : (tokens * vocabulary / tensor + tokens * hidden) * 2;
  }
  constexpr double kOverhead = 1.05;
  memory.activation_bytes = in_sequence ? bytes / tensor : bytes * kOverhead;
}

}  // namespace

Result<RecomputeGranularity> parse_recompute_granularity(std::string_view text) {
  if (text == "selective") return RecomputeGranularity::kSelective;
  if (text == "full") return RecomputeGranularity::kFull;
  return make_error(StatusCode::kInvalidArgument, "expected selective or full, found {}",
                    text::printable(text));
}

Result<TheoreticalMemory> theoretical_memory(const GptConfig& config,
                                             const TheoreticalMemoryOptions& options) {
  MEG_RETURN_IF_ERROR(check(config, options));
  TheoreticalMemory memory;
  add_weights(config, options, memory);
  add_layer_activations(config, options, memory);
  add_activations(config, options, memory);
  return memory;
}

std::vector<std::string> theoretical_memory_lines(const TheoreticalMemory& memory, bool verbose) {
  std::vector<std::string> lines;
  if (verbose) {
    // One figure has Python's format "{: .2f}", with a space for the sign.
    lines.push_back(fmt::format("Number of parameters in transformer block in billions: {: .2f}",
                                memory.transformer_block_parameters / kBillion));
    lines.push_back(fmt::format("Number of parameters in embedding layers in billions: {:.2f}",
                                memory.embedding_parameters / kBillion));
    lines.push_back(fmt::format("Total number of parameters in billions: {:.2f}",
                                memory.total_parameters / kBillion));
    lines.push_back(fmt::format("Number of parameters in most loaded shard in billions: {:.4f}",
                                memory.most_loaded_shard_parameters / kBillion));
    if (memory.other_shard_parameters) {
      lines.push_back(fmt::format("Number of parameters in other shards in billions: {:.4f}",
                                  *memory.other_shard_parameters / kBillion));
    }
    if (memory.activation_bytes_per_layer) {
      lines.push_back(
          fmt::format("Activation memory footprint per transformer layer{}: {:.1f} MB",
                      memory.is_with_sequence_parallelism ? "" : " (precise, without SP)",
                      *memory.activation_bytes_per_layer / kMegabyte));
    }
    if (memory.interleaved_schedule_memory_penalty) {
      lines.push_back(fmt::format("Memory penalty from interleaved schedule: {:.2f}",
                                  *memory.interleaved_schedule_memory_penalty));
    }
    if (memory.in_flight_microbatches) {
      lines.push_back(
          fmt::format("Number of in-flight microbatches: {}", *memory.in_flight_microbatches));
    }
  }
  const double weights = memory.weight_and_optimizer_bytes / kMegabyte;
  std::string last =
      fmt::format("Theoretical memory footprints: weight and optimizer={:.2f} MB", weights);
  if (memory.activation_bytes) {
    const double activation = *memory.activation_bytes / kMegabyte;
    last +=
        fmt::format(", activation={:.2f} MB, total={:.2f} MB", activation, weights + activation);
  }
  lines.push_back(std::move(last));
  return lines;
}

}  // namespace meg::model
