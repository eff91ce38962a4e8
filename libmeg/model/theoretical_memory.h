#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_count.h"

namespace meg::model {

/// --recompute-granularity: which activations the backward pass recomputes.
enum class RecomputeGranularity : uint8_t {
  kNone,
  kSelective,  ///< The attention's scores; fused attention keeps none of them either.
  kFull,       ///< Whole layers, of which only the inputs are kept.
};

/// "selective" or "full"; kInvalidArgument for other texts.
Result<RecomputeGranularity> parse_recompute_granularity(std::string_view text);

/// The settings of a training run that its memory depends on.
struct TheoreticalMemoryOptions {
  ParallelSizes sizes = {};
  int64_t data_parallel_size = 1;
  bool use_distributed_optimizer = false;
  bool sequence_parallel = false;
  RecomputeGranularity recompute_granularity = RecomputeGranularity::kNone;
  int64_t micro_batch_size = 1;
  std::optional<int64_t> num_microbatches = std::nullopt;  ///< nullopt: the pipeline is full.
  /// Micro-batches that a virtual stage processes in a row; nullopt: the number of stages.
  std::optional<int64_t> microbatch_group_size_per_vp_stage = std::nullopt;
  /// Megatron estimates all activations of any run since core 0.15; before, only with sequence
  /// parallelism and selective recomputation.
  bool estimates_any_activations = true;
};

/// Memory of training on the rank that needs the most. Numbers of parameters are fractions if they
/// do not divide evenly. Megatron counts no biases, and 18 bytes per parameter (16-bit weight, fp32
/// gradient, master and two moments).
struct TheoreticalMemory {
  double transformer_block_parameters = 0;
  double embedding_parameters = 0;  ///< Includes those of an untied output layer.
  double total_parameters = 0;
  double most_loaded_shard_parameters = 0;
  std::optional<double> other_shard_parameters;  ///< Of later pipeline stages, if there are any.
  double weight_and_optimizer_bytes = 0;

  /// Megatron's estimate of all activations, if it has one, and the numbers printed with it.
  std::optional<double> activation_bytes;
  /// Which of Megatron's two estimates it is: the one for sequence parallelism and selective
  /// recomputation, or the one for all other runs, which counts neither recomputation nor the
  /// attention's scores, takes MLPs to be four times as wide as the hidden size, and adds 5%.
  bool is_with_sequence_parallelism = false;
  std::optional<double> interleaved_schedule_memory_penalty;
  std::optional<int64_t> in_flight_microbatches;
  std::optional<double> activation_bytes_per_layer;  ///< On one rank.

  /// The transformer layers' activations for any options: without parallelism and recomputation
  /// 34 b s h + 5 b s^2 a bytes a layer (b: micro_batch_size, s: seq_length, h: hidden_size, a:
  /// num_attention_heads); with experts, those of a token count, in the larger of both kinds of
  /// layers. Table 2 of https://arxiv.org/abs/2205.05198.
  double layer_activation_bytes = 0;  ///< Of one layer, on one rank.
  /// Activations of all layers that the first pipeline stage holds: as many layers as the model
  /// has.
  double layers_activation_bytes = 0;
};

/// kInvalidArgument if seq_length or padded_vocab_size is unknown or sizes cannot be divided. Every
/// rank has all experts of its layers.
/// Mirrors Megatron-LM core_v0.16.1 megatron/training/theoretical_memory_usage.py.
Result<TheoreticalMemory> theoretical_memory(const GptConfig& config,
                                             const TheoreticalMemoryOptions& options);

/// Megatron's lines about it. verbose: all of them, otherwise only the last one.
std::vector<std::string> theoretical_memory_lines(const TheoreticalMemory& memory, bool verbose);

}  // namespace meg::model
