#include "libmeg/model/rank_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace meg::model {
namespace {

constexpr int64_t kAlignment = 64;  // elements
/// Far more than any memory has; their bytes are counted exactly.
constexpr int64_t kMostParameters = int64_t{1} << 48;
constexpr double kMegabyte = 1024 * 1024;
constexpr double kFloatBytes = 4;
constexpr double kSixteenBitBytes = 2;

int64_t rounded_up(int64_t elements, int64_t step) { return (elements + step - 1) / step * step; }

double real(int64_t value) { return static_cast<double>(value); }

/// Chunks of a stage's layers whose micro-batches wait for their backward pass, at most: its
/// warm-up and one. Mirrors Megatron-LM megatron/core/pipeline_parallel/schedules.py.
int64_t chunks_in_flight(const TheoreticalMemoryOptions& options, int64_t stage) {
  const int64_t stages = options.sizes.pipeline_model_parallel_size;
  const int64_t chunks = options.sizes.virtual_pipeline_model_parallel_size;
  const int64_t behind = stages - stage - 1;
  const int64_t group = options.microbatch_group_size_per_vp_stage.value_or(stages);
  const int64_t full = chunks == 1 ? behind + 1 : 2 * behind + (chunks - 1) * group + 1;
  // More micro-batches than this are never in flight.
  const int64_t most = stages + group;
  return std::min(full, std::min(options.num_microbatches.value_or(most), most) * chunks);
}

Result<RankMemory> memory_of_stage(const GptConfig& config, const TheoreticalMemoryOptions& options,
                                   const NumberFormats& formats, int64_t stage) {
  RankMemory memory;
  MEG_ASSIGN_OR_RETURN(memory.parameters, parameter_count(config, options.sizes, stage));
  if (memory.parameters > kMostParameters) {
    return make_error(StatusCode::kOutOfRange,
                      "memory of ranks: expected at most {} parameters on a rank, found {}",
                      kMostParameters, memory.parameters);
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<StageParameter> parameters,
                       stage_parameters(config, options.sizes, stage));
  int64_t padded = 0;
  for (const StageParameter& parameter : parameters) {
    padded += padded_elements(parameter.elements) * parameter.copies;
  }
  const int64_t shares = options.use_distributed_optimizer ? options.data_parallel_size : 1;
  const int64_t part = part_elements(padded, shares);
  const double width = formats.sixteen_bit ? kSixteenBitBytes : kFloatBytes;
  // Ranks that share the optimizer gather the parameters in one array.
  memory.parameter_bytes =
      width * (shares > 1 ? real(part) * real(shares) : real(memory.parameters));
  memory.gradient_bytes =
      (formats.widens_gradients ? kFloatBytes : width) * real(part) * real(shares);
  memory.optimizer_bytes = (formats.sixteen_bit ? 3 : 2) * kFloatBytes * real(part);
  return memory;
}

}  // namespace

int64_t padded_elements(int64_t elements) { return rounded_up(elements, kAlignment); }

int64_t part_elements(int64_t padded, int64_t parts) {
  return rounded_up(padded, kAlignment * parts) / parts;
}

Result<std::vector<RankMemory>> rank_memory(const GptConfig& config,
                                            const TheoreticalMemoryOptions& options,
                                            const NumberFormats& formats,
                                            const TheoreticalMemory& memory) {
  const ParallelSizes& sizes = options.sizes;
  const int64_t layers = config.num_layers / (sizes.pipeline_model_parallel_size *
                                              sizes.virtual_pipeline_model_parallel_size);
  std::vector<RankMemory> stages;
  for (int64_t stage = 0; stage < sizes.pipeline_model_parallel_size; ++stage) {
    MEG_ASSIGN_OR_RETURN(RankMemory found, memory_of_stage(config, options, formats, stage));
    found.layers_in_flight = layers * chunks_in_flight(options, stage);
    found.activation_bytes = memory.layer_activation_bytes * real(found.layers_in_flight);
    stages.push_back(found);
  }
  return stages;
}

std::vector<std::string> rank_memory_lines(const std::vector<RankMemory>& stages) {
  std::vector<std::string> lines;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const RankMemory& rank = stages[stage];
    lines.push_back(fmt::format(
        "Memory of a rank of pipeline stage {}: {} parameters: weights {:.2f} MB, gradients {:.2f} "
        "MB, optimizer {:.2f} MB, activations of {} layers in flight {:.2f} MB, total {:.2f} MB",
        stage, rank.parameters, rank.parameter_bytes / kMegabyte, rank.gradient_bytes / kMegabyte,
        rank.optimizer_bytes / kMegabyte, rank.layers_in_flight, rank.activation_bytes / kMegabyte,
        rank.total_bytes() / kMegabyte));
  }
  return lines;
}

}  // namespace meg::model
