#include "libmeg/model/parameter_count.h"

#include <algorithm>
#include <utility>

#include "libmeg/model/expert_names.h"
#include "libmeg/model/internal/parameter_rows.h"
#include "libmeg/model/shard_axes.h"

// model_parameters() lists the whole model from the table's rows; what one rank holds follows from
// it in two steps, cutting each shape by tensor parallelism and repeating each parameter as often
// as a pipeline stage has it. So names, counts and shapes of ranks cannot disagree with those of
// the model.

namespace meg::model {
namespace {

/// Followed by linear_fc1 or linear_fc2.
constexpr std::string_view kDenseMlp = "decoder.layers.{}.mlp.linear_";
constexpr std::string_view kMlp = "decoder.layers.{}.mlp.";
constexpr std::string_view kExpertStem = "decoder.layers.{}.mlp.experts.";

bool is_present(Presence presence, const GptConfig& config, bool with_tied_copy) {
  const bool has_norm_bias = config.normalization == "LayerNorm";
  switch (presence) {
    case Presence::kAlways:
      return true;
    case Presence::kLearnedPositions:
      return config.position_embedding_type == "learned_absolute";
    case Presence::kLinearBias:
      return config.add_bias_linear;
    case Presence::kQkvBias:
      return config.has_qkv_bias();
    case Presence::kPreNorm:
      return config.pre_layernorm;
    case Presence::kPreNormBias:
      return config.pre_layernorm && has_norm_bias;
    case Presence::kPostNorm:
      return config.post_layernorm;
    case Presence::kPostNormBias:
      return config.post_layernorm && has_norm_bias;
    case Presence::kNormBias:
      return has_norm_bias;
    case Presence::kQkNorm:
      return config.qk_layernorm;
    case Presence::kQkNormBias:
      return config.qk_layernorm && has_norm_bias;
    case Presence::kSoftmaxOffset:
      return config.softmax_type == "learnable";
    case Presence::kUntied:
      return config.untie_embeddings_and_output_weights;
    case Presence::kTiedCopy:
      return with_tied_copy && !config.untie_embeddings_and_output_weights;
    case Presence::kExperts:
      return config.num_experts.has_value();
    case Presence::kRouterBias:
      return config.num_experts.has_value() && config.add_bias_linear;
    case Presence::kSharedExperts:
      return config.moe_shared_expert_intermediate_size.has_value();
    case Presence::kSharedGate:
      return config.moe_shared_expert_gate &&
             config.moe_shared_expert_intermediate_size.has_value();
    case Presence::kSharedBias:
      return config.add_bias_linear && config.moe_shared_expert_intermediate_size.has_value();
    // Readers know their names, but no configuration that is read asks for them.
    case Presence::kUntold:
      return false;
  }
  return false;
}

int64_t extent_size(Extent extent, const GptConfig& config) {
  switch (extent) {
    case Extent::kNone:
      return 0;
    case Extent::kVocabulary:
      return config.padded_vocab_size;
    case Extent::kPositions:
      return config.max_position_embeddings;
    case Extent::kHidden:
      return config.hidden_size;
    case Extent::kQueryNorm:
      return config.kv_channels *
             (config.qk_layernorm_across_heads ? config.num_attention_heads : 1);
    case Extent::kKeyNorm:
      return config.kv_channels * (config.qk_layernorm_across_heads ? config.num_query_groups : 1);
    case Extent::kHeads:
      return config.num_attention_heads;
    case Extent::kProjection:
      return config.num_attention_heads * config.kv_channels;
    case Extent::kQkvRows:
      return config.qkv_rows();
    case Extent::kMlpRows:
      return config.mlp_rows();
    case Extent::kFfn:
      return config.ffn_hidden_size;
    case Extent::kExpertCount:
      return config.num_experts.value_or(0);
    case Extent::kOne:
      return 1;
    case Extent::kSharedRows:
      return config.shared_rows();
    case Extent::kSharedFfn:
      return config.moe_shared_expert_intermediate_size.value_or(0);
  }
  return 0;
}

Status check_known(const GptConfig& config) {
  if (config.num_experts.value_or(0) > kMostExperts) {
    return make_error(StatusCode::kInvalidArgument, "num_experts: expected at most {}, found {}",
                      kMostExperts, *config.num_experts);
  }
  if (config.padded_vocab_size <= 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "padded_vocab_size: expected the size of the padded vocabulary, found {}",
                      config.padded_vocab_size);
  }
  if (config.position_embedding_type == "learned_absolute" && config.max_position_embeddings <= 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "max_position_embeddings: expected a size for learned positions, found {}",
                      config.max_position_embeddings);
  }
  return Status();
}

/// What a rank's parameters follow from.
struct RankModel {
  std::vector<ModelParameter> parameters;  ///< Cut by tensor parallelism.
  PipelineLayout layout;
};

/// Which experts a rank has, and how they are split.
Status check_expert_sizes(const GptConfig& config, const ParallelSizes& sizes) {
  const int64_t ranks = sizes.expert_model_parallel_size;
  if (!config.num_experts.has_value()) {
    if (ranks == 1) return {};
    return make_error(StatusCode::kInvalidArgument,
                      "expert_model_parallel_size {}: expected num_experts with it, found none",
                      ranks);
  }
  if (ranks < 1 || *config.num_experts % ranks != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "expert_model_parallel_size: expected a divisor of the {} experts "
                      "(num_experts), found {}",
                      *config.num_experts, ranks);
  }
  const int64_t split = sizes.expert_tensor_size();
  if (split > 0 && config.moe_ffn_hidden_size % split == 0) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "expert_tensor_parallel_size: expected a divisor of moe_ffn_hidden_size {}, "
                    "found {}",
                    config.moe_ffn_hidden_size, split);
}

Result<RankModel> rank_model(const GptConfig& config, const ParallelSizes& sizes,
                             int64_t pipeline_rank, int64_t expert_rank = 0) {
  MEG_RETURN_IF_ERROR(config.check_tensor_parallel_size(sizes.tensor_model_parallel_size));
  MEG_RETURN_IF_ERROR(check_expert_sizes(config, sizes));
  MEG_ASSIGN_OR_RETURN(PipelineLayout layout, PipelineLayout::create(config.num_layers, sizes));
  if (pipeline_rank < 0 || pipeline_rank >= sizes.pipeline_model_parallel_size) {
    return make_error(StatusCode::kInvalidArgument, "pipeline rank: expected 0 to {}, found {}",
                      sizes.pipeline_model_parallel_size - 1, pipeline_rank);
  }
  MEG_ASSIGN_OR_RETURN(std::vector<ModelParameter> parameters,
                       model_parameters(config, sizes.pipeline_model_parallel_size > 1));
  const int64_t share = config.num_experts.value_or(0) / sizes.expert_model_parallel_size;
  std::erase_if(parameters, [&](const ModelParameter& parameter) {
    const std::optional<ExpertName> name = parse_expert_name(parameter.canonical);
    return name.has_value() && name->expert / share != expert_rank;
  });
  for (ModelParameter& parameter : parameters) {
    const bool is_expert = parse_expert_name(parameter.canonical).has_value();
    MEG_ASSIGN_OR_RETURN(parameter.shape,
                         shard_shape(parameter.partition, std::move(parameter.shape),
                                     sizes.tensor_size_of(is_expert)));
  }
  return RankModel{.parameters = std::move(parameters), .layout = std::move(layout)};
}

/// How often a chunk holds a placement: once for each of its layers, or once where it lives.
int64_t copies(Placement placement, const PipelineLayout& layout, int64_t stage, int64_t chunk) {
  switch (placement) {
    case Placement::kEmbedding:
      return layout.is_first(stage, chunk) ? 1 : 0;
    case Placement::kLayer:
      return layout.layers(stage, chunk);
    case Placement::kFinal:
    case Placement::kOutput:
      break;
  }
  return layout.is_last(stage, chunk) ? 1 : 0;
}

/// How many parameters a chunk holds for one of model_parameters().
int64_t copies(const ModelParameter& parameter, const GptConfig& config,
               const PipelineLayout& layout, int64_t stage, int64_t chunk) {
  const int64_t all = copies(parameter.placement, layout, stage, chunk);
  if (parameter.layers == LayersWith::kAll || config.moe_layers.empty()) return all;
  int64_t count = 0;
  const int64_t first = layout.first_layer(stage, chunk);
  for (int64_t i = 0; i < all; ++i) count += parameter.is_in(config, first + i) ? 1 : 0;
  return count;
}

/// The layers that have a module: those of experts, those of dense MLPs, or all.
LayersWith layers_with(const ModuleRow& module) {
  if (module.canonical_stem().starts_with(kDenseMlp)) return LayersWith::kDenseMlp;
  return module.canonical_stem().starts_with(kMlp) ? LayersWith::kExperts : LayersWith::kAll;
}

}  // namespace

Result<std::vector<ModelParameter>> model_parameters(const GptConfig& config, bool with_tied_copy) {
  MEG_RETURN_IF_ERROR(check_known(config));
  std::vector<ModelParameter> parameters;
  const auto add = [&](std::string_view stem, const ModuleRow& module, const GptConfig& sizes,
                       LayersWith layers) {
    if (layers == LayersWith::kExperts && config.num_moe_layers() == 0) return;
    const auto add_row = [&](const ParameterRow& row, std::string_view ending, bool is_buffer) {
      const bool is_here = is_buffer ? config.moe_router_enable_expert_bias
                                     : is_present(row.presence, config, with_tied_copy);
      if (row.extents[0] == Extent::kNone || !is_here) return;
      ModelParameter parameter;
      parameter.is_buffer = is_buffer;
      parameter.canonical = std::string(stem) + std::string(ending);
      parameter.partition = row.partition;
      parameter.placement = module.placement;
      parameter.layers = layers;
      for (const Extent extent : row.extents) {
        if (extent != Extent::kNone) parameter.shape.push_back(extent_size(extent, sizes));
      }
      parameters.push_back(std::move(parameter));
    };
    add_row(module.weight, module.weight_name, false);
    add_row(module.bias, "bias", false);
    if (!module.buffer.empty()) add_row(module.bias, module.buffer, true);
  };
  GptConfig expert = config;
  // An expert's MLP has the dense rows with another inner size.
  expert.ffn_hidden_size = config.moe_ffn_hidden_size;
  for (const ModuleRow& module : gpt_module_rows()) {
    const std::string_view stem = module.canonical_stem();
    const LayersWith layers = layers_with(module);
    const bool is_mlp = layers == LayersWith::kDenseMlp;
    if (!is_mlp || config.num_moe_layers() < config.num_layers) add(stem, module, config, layers);
    // A layer with experts has the dense MLP's rows once for each of them.
    if (!is_mlp || config.num_moe_layers() == 0) continue;
    for (int64_t k = 0; k < *config.num_experts; ++k) {
      add(with_expert({kExpertStem, stem.substr(kMlp.size()), k, false}, k), module, expert,
          LayersWith::kExperts);
    }
  }
  return parameters;
}

Result<std::vector<RankParameter>> rank_parameters(const GptConfig& config,
                                                   const ParallelSizes& sizes,
                                                   int64_t pipeline_rank, NameFamily family,
                                                   const ParameterTable& table,
                                                   int64_t expert_rank) {
  MEG_ASSIGN_OR_RETURN(RankModel model, rank_model(config, sizes, pipeline_rank, expert_rank));
  std::vector<ModelParameter>& parameters = model.parameters;
  const PipelineLayout& layout = model.layout;
  const auto key = [&](const ModelParameter& parameter) {
    return std::pair(parameter.placement, table.order(parameter.canonical, family));
  };
  // Stable: parameters that the family has no place for keep the table's order.
  std::stable_sort(parameters.begin(), parameters.end(),
                   [&](const ModelParameter& left, const ModelParameter& right) {
                     return key(left) < key(right);
                   });
  std::vector<RankParameter> found;
  const auto add_placement = [&](Placement placement, int64_t chunk, int64_t layer) {
    for (const ModelParameter& parameter : parameters) {
      if (parameter.placement != placement || !parameter.is_in(config, layer)) continue;
      RankParameter rank;
      rank.name = with_layer(parameter.canonical, layer);
      rank.chunk = chunk;
      if (placement == Placement::kLayer) rank.layer = layer;
      rank.partition = parameter.partition;
      rank.shape = parameter.shape;
      rank.is_expert = parse_expert_name(parameter.canonical).has_value();
      rank.is_buffer = parameter.is_buffer;
      found.push_back(std::move(rank));
    }
  };
  for (int64_t chunk = 0; chunk < sizes.virtual_pipeline_model_parallel_size; ++chunk) {
    for (const Placement placement :
         {Placement::kEmbedding, Placement::kLayer, Placement::kFinal, Placement::kOutput}) {
      const int64_t first = layout.first_layer(pipeline_rank, chunk);
      const int64_t count = copies(placement, layout, pipeline_rank, chunk);
      for (int64_t i = 0; i < count; ++i) add_placement(placement, chunk, first + i);
    }
  }
  return found;
}

Result<std::vector<StageParameter>> stage_parameters(const GptConfig& config,
                                                     const ParallelSizes& sizes,
                                                     int64_t pipeline_rank) {
  MEG_ASSIGN_OR_RETURN(const RankModel model, rank_model(config, sizes, pipeline_rank));
  std::vector<StageParameter> found;
  int64_t total = 0;
  for (const ModelParameter& parameter : model.parameters) {
    if (parameter.is_buffer) continue;
    StageParameter& part = found.emplace_back();
    part.elements = 1;
    part.is_expert = parse_expert_name(parameter.canonical).has_value();
    for (int64_t chunk = 0; chunk < sizes.virtual_pipeline_model_parallel_size; ++chunk) {
      part.copies += copies(parameter, config, model.layout, pipeline_rank, chunk);
    }
    bool fits = true;
    for (const int64_t size : parameter.shape) {
      // Sizes come from files and flags: a product that wraps round would pass for a small model.
      fits = fits && !__builtin_mul_overflow(part.elements, size, &part.elements);
    }
    int64_t all = 0;
    if (!fits || __builtin_mul_overflow(part.elements, part.copies, &all) ||
        __builtin_add_overflow(total, all, &total)) {
      return make_error(StatusCode::kOutOfRange, "{}: its elements cannot be counted in 64 bits",
                        parameter.canonical);
    }
  }
  return found;
}

Result<int64_t> parameter_count(const GptConfig& config, const ParallelSizes& sizes,
                                int64_t pipeline_rank) {
  MEG_ASSIGN_OR_RETURN(const std::vector<StageParameter> parameters,
                       stage_parameters(config, sizes, pipeline_rank));
  int64_t total = 0;
  for (const StageParameter& parameter : parameters) total += parameter.elements * parameter.copies;
  return total;
}

}  // namespace meg::model
