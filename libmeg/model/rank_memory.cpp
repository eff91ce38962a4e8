#include "libmeg/model/rank_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "libmeg/model/internal/memory_units.h"

namespace meg::model {
namespace {

constexpr int64_t kAlignment = 64;  // elements
/// Far more than any memory has; their bytes are counted exactly.
constexpr int64_t kMostParameters = int64_t{1} << 48;
constexpr double kFloatBytes = 4;
constexpr double kSixteenBitBytes = 2;

int64_t rounded_up(int64_t elements, int64_t step) { return (elements + step - 1) / step * step; }

/// Passes of a stage that it has begun and not brought back, at most: its warm-up and one, each of
/// a micro-batch through one of its chunks.
/// Mirrors Megatron-LM megatron/core/pipeline_parallel/schedules.py.
int64_t passes_in_flight(const PipelineLayout& layout, int64_t group, int64_t stage) {
  const int64_t behind = layout.stages() - stage - 1;
  if (layout.chunks() == 1) return behind + 1;
  return 2 * behind + (layout.chunks() - 1) * group + 1;
}

bool has_chunks_alike(const PipelineLayout& layout, int64_t stage) {
  for (int64_t chunk = 1; chunk < layout.chunks(); ++chunk) {
    if (layout.layers(stage, chunk) != layout.layers(stage, 0)) return false;
  }
  return true;
}

/// The chunk of each pass of `micro_batches`, which take the chunks in turn by groups.
std::vector<int64_t> chunks_of_passes(int64_t chunks, int64_t group, int64_t micro_batches) {
  std::vector<int64_t> found;
  for (int64_t first = 0; first < micro_batches; first += group) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      found.insert(found.end(), static_cast<size_t>(std::min(group, micro_batches - first)), chunk);
    }
  }
  return found;
}

/// Layers of micro-batches that wait for their backward pass, at most.
int64_t layers_in_flight(const PipelineLayout& layout, const TheoreticalMemoryOptions& options,
                         int64_t stage) {
  const int64_t group = options.microbatch_group_size_per_vp_stage.value_or(layout.stages());
  // More micro-batches than this are never in flight.
  const int64_t most = layout.stages() + group;
  const int64_t passes = passes_in_flight(layout, group, stage);
  const int64_t micro_batches = std::min(options.num_microbatches.value_or(most), most);
  if (has_chunks_alike(layout, stage)) {
    return layout.layers(stage, 0) * std::min(passes, micro_batches * layout.chunks());
  }
  // Which chunks wait changes from pass to pass; a group after those in flight all have been.
  const std::vector<int64_t> order =
      chunks_of_passes(layout.chunks(), group,
                       std::min(options.num_microbatches.value_or(most + group), most + group));
  int64_t now = 0, highest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (static_cast<int64_t>(i) >= passes) {
      const int64_t done = order[i - static_cast<size_t>(passes)];
      now -= layout.layers(stage, layout.chunks() - 1 - done);
    }
    now += layout.layers(stage, order[i]);
    highest = std::max(highest, now);
  }
  return highest;
}

/// The elements of parameters that are divided over as many ranks.
struct DividedElements {
  int64_t shares = 1;
  int64_t padded = 0;

  int64_t of_rank() const { return part_elements(padded, shares); }

  int64_t of_all() const { return of_rank() * shares; }
};

/// The ranks that have the same part of the same experts, which are not data-parallel ranks alone.
Result<int64_t> expert_copies(const TheoreticalMemoryOptions& options) {
  const ParallelSizes& sizes = options.sizes;
  const int64_t ranks = options.data_parallel_size * sizes.tensor_model_parallel_size;
  const int64_t sharing = sizes.expert_model_parallel_size * sizes.expert_tensor_size();
  if (ranks % sharing == 0) return ranks / sharing;
  return make_error(StatusCode::kInvalidArgument,
                    "expert_model_parallel_size {} x expert_tensor_parallel_size {}: expected a "
                    "divisor of {}, the tensor-parallel x the data-parallel size",
                    sizes.expert_model_parallel_size, sizes.expert_tensor_size(), ranks);
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
  DividedElements experts, others;
  if (options.use_distributed_optimizer) {
    others.shares = options.data_parallel_size;
    MEG_ASSIGN_OR_RETURN(experts.shares, expert_copies(options));
  }
  for (const StageParameter& parameter : parameters) {
    (parameter.is_expert ? experts : others).padded +=
        padded_elements(parameter.elements) * parameter.copies;
  }
  const double all = real(experts.of_all() + others.of_all());
  const double width = formats.sixteen_bit ? kSixteenBitBytes : kFloatBytes;
  // Ranks that share the optimizer gather the parameters in one array.
  memory.parameter_bytes = width * (others.shares > 1 ? all : real(memory.parameters));
  memory.gradient_bytes = (formats.widens_gradients ? kFloatBytes : width) * all;
  memory.optimizer_bytes =
      (formats.sixteen_bit ? 3 : 2) * kFloatBytes * real(experts.of_rank() + others.of_rank());
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
  MEG_ASSIGN_OR_RETURN(const PipelineLayout layout,
                       PipelineLayout::create(config.num_layers, options.sizes));
  std::vector<RankMemory> stages;
  for (int64_t stage = 0; stage < layout.stages(); ++stage) {
    MEG_ASSIGN_OR_RETURN(RankMemory found, memory_of_stage(config, options, formats, stage));
    found.layers_in_flight = layers_in_flight(layout, options, stage);
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
