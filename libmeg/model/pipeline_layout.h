#pragma once

#include <cstdint>

#include "libmeg/base/result.h"

namespace meg::model {

/// Which layers of a model a pipeline stage and its virtual chunks hold (even splits).
/// Chunk c of stage p holds layers_per_chunk() layers from first_layer(p, c) on.
/// Mirrors Megatron-LM megatron/core/transformer/transformer_layer.py:
/// get_transformer_layer_offset.
struct PipelineLayout {
  int64_t num_layers = 0;
  int64_t pipeline_model_parallel_size = 1;
  int64_t virtual_pipeline_model_parallel_size = 1;  ///< Chunks of a stage; 1: none.

  int64_t layers_per_chunk() const {
    return num_layers / (pipeline_model_parallel_size * virtual_pipeline_model_parallel_size);
  }

  int64_t first_layer(int64_t stage, int64_t chunk) const {
    return chunk * (num_layers / virtual_pipeline_model_parallel_size) + stage * layers_per_chunk();
  }

  /// Whether this chunk holds the embedding.
  bool is_first(int64_t stage, int64_t chunk) const { return stage == 0 && chunk == 0; }

  /// Whether this chunk holds the final norm and the output layer.
  bool is_last(int64_t stage, int64_t chunk) const {
    return stage == pipeline_model_parallel_size - 1 &&
           chunk == virtual_pipeline_model_parallel_size - 1;
  }
};

}  // namespace meg::model
