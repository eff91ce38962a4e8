#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/megatron/field_reader.h"

namespace meg::model {

/// How a command line distributes layers over pipeline stages (default: evenly). Mirrors
/// Megatron-LM megatron/core/transformer/transformer_config.py.
struct PipelineSplit {
  std::optional<int64_t> decoder_first_pipeline_num_layers = std::nullopt;
  std::optional<int64_t> decoder_last_pipeline_num_layers = std::nullopt;
  /// Whether the embedding (the loss) counts as a layer.
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;
  /// Such as "Et*3|(tt|)*2tL": E embedding, t layer, L loss, | between stages.
  std::optional<std::string> pipeline_model_parallel_layout = std::nullopt;

  bool operator==(const PipelineSplit&) const = default;

  /// Number of layers to distribute: num_layers, plus everything that counts as a layer.
  int64_t places(int64_t num_layers) const {
    return num_layers + (account_for_embedding_in_pipeline_split ? 1 : 0) +
           (account_for_loss_in_pipeline_split ? 1 : 0);
  }

  void take_fields(megatron::FieldReader& args) {
    args.take("decoder_first_pipeline_num_layers", decoder_first_pipeline_num_layers);
    args.take("decoder_last_pipeline_num_layers", decoder_last_pipeline_num_layers);
    args.take("account_for_embedding_in_pipeline_split", account_for_embedding_in_pipeline_split);
    args.take("account_for_loss_in_pipeline_split", account_for_loss_in_pipeline_split);
    args.take("pipeline_model_parallel_layout", pipeline_model_parallel_layout);
  }
};

/// Sizes of the parallel groups that split a model.
struct ParallelSizes {
  int64_t tensor_model_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  int64_t virtual_pipeline_model_parallel_size = 1;  ///< Chunks of a stage; 1: none.
  PipelineSplit split = {};
  int64_t expert_model_parallel_size = 1;  ///< Ranks that share the experts of each layer.
  /// Ranks that split an expert; nullopt: the tensor-parallel size.
  std::optional<int64_t> expert_tensor_parallel_size = std::nullopt;

  int64_t expert_tensor_size() const {
    return expert_tensor_parallel_size.value_or(tensor_model_parallel_size);
  }

  /// Ranks that split a parameter. is_expert: whether it is an expert's.
  int64_t tensor_size_of(bool is_expert) const {
    return is_expert ? expert_tensor_size() : tensor_model_parallel_size;
  }
};

}  // namespace meg::model
