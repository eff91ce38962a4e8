#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parallel_sizes.h"
#include "libmeg/model/parameter_table.h"
#include "libmeg/model/pipeline_layout.h"

namespace meg::model {

/// The layers that have a parameter, by their MLPs.
enum class LayersWith : uint8_t { kAll, kDenseMlp, kExperts };

/// A parameter that a model of some configuration has.
struct ModelParameter {
  std::string canonical;  ///< With {} for the layer's number if placement is kLayer.
  Partition partition = Partition::kReplicated;
  Placement placement = Placement::kLayer;
  std::vector<int64_t> shape;  ///< Merged over tensor-parallel ranks.
  LayersWith layers = LayersWith::kAll;
  bool is_buffer = false;  ///< An fp32 tensor that no optimizer updates and no count has.

  /// Whether a layer of the model has it.
  bool is_in(const GptConfig& config, int64_t layer) const {
    return layers == LayersWith::kAll ||
           config.has_experts(layer) == (layers == LayersWith::kExperts);
  }
};

/// A parameter as one rank holds it.
struct RankParameter {
  std::string name;              ///< Canonical name with the layer's number in the whole model.
  int64_t chunk = 0;             ///< Virtual pipeline chunk.
  std::optional<int64_t> layer;  ///< Number in the whole model.
  Partition partition = Partition::kReplicated;
  std::vector<int64_t> shape;  ///< Shape of this rank's shard.
  bool is_expert = false;      ///< Whether it is one of an expert.
  bool is_buffer = false;      ///< As ModelParameter's.
};

/// Every parameter of the model, with those of a layer listed once. The tied copy of the embedding,
/// which a model in several pipeline stages has, is only included if with_tied_copy is set. With
/// experts each is listed by its name (expert_names.h), and an MLP's parameters once more where
/// some layers are dense. kInvalidArgument if padded_vocab_size or max_position_embeddings is
/// needed and unknown.
Result<std::vector<ModelParameter>> model_parameters(const GptConfig& config,
                                                     bool with_tied_copy = false);

/// The parameters of tensor rank 0 (all are alike) of a pipeline stage, in the family's
/// named_parameters() order. expert_rank: among the expert-parallel ones, whose experts keep their
/// numbers in the layer. kInvalidArgument if the sizes cannot be divided, or there is no such
/// stage.
Result<std::vector<RankParameter>> rank_parameters(const GptConfig& config,
                                                   const ParallelSizes& sizes,
                                                   int64_t pipeline_rank, NameFamily family,
                                                   const ParameterTable& table,
                                                   int64_t expert_rank = 0);

/// A parameter of a pipeline stage, in the size that one of its tensor ranks holds.
struct StageParameter {
  int64_t elements = 0;
  int64_t copies = 0;  ///< Number of the stage's layers that have it.
  bool is_expert = false;
};

/// Every parameter of a stage, without buffers. Errors: those of parameter_count().
Result<std::vector<StageParameter>> stage_parameters(const GptConfig& config,
                                                     const ParallelSizes& sizes,
                                                     int64_t pipeline_rank);

/// Elements of these parameters: what Megatron prints as "number of parameters on (tensor,
/// pipeline) model parallel rank (0, P)". With sizes of 1, the count of the whole model.
Result<int64_t> parameter_count(const GptConfig& config, const ParallelSizes& sizes = {},
                                int64_t pipeline_rank = 0);

}  // namespace meg::model
