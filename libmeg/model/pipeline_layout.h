#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/parallel_sizes.h"

namespace meg::model {

/// The layers of a model that each pipeline stage and its virtual chunks hold. The layers are
/// numbered through the first chunks of all stages, then through the second ones, and so on.
/// Mirrors Megatron-LM megatron/core/transformer/transformer_layer.py:
/// get_transformer_layer_offset, and transformer_block.py: get_num_layers_to_build.
class PipelineLayout {
 public:
  /// kInvalidArgument if the layers cannot be split in this way, or Megatron refuses to;
  /// kUnsupported if a stage would hold something that GPT models here do not have.
  static Result<PipelineLayout> create(int64_t num_layers, const ParallelSizes& sizes);

  int64_t stages() const { return stages_; }

  int64_t chunks() const { return chunks_; }  ///< Chunks per stage.

  /// Number of layers in chunk `chunk` of stage `stage`.
  int64_t layers(int64_t stage, int64_t chunk) const;

  /// Its first layer.
  int64_t first_layer(int64_t stage, int64_t chunk) const;

  /// Whether this chunk holds the embedding.
  bool is_first(int64_t stage, int64_t chunk) const { return stage == 0 && chunk == 0; }

  /// Whether this chunk holds the final norm and the output layer.
  bool is_last(int64_t stage, int64_t chunk) const {
    return stage == stages_ - 1 && chunk == chunks_ - 1;
  }

 private:
  explicit PipelineLayout(const ParallelSizes& sizes)
      : stages_(sizes.pipeline_model_parallel_size),
        chunks_(sizes.virtual_pipeline_model_parallel_size) {}

  Status split_evenly(int64_t num_layers, const PipelineSplit& split);
  Status split_around_ends(int64_t num_layers, const PipelineSplit& split);
  Status split_as_told(int64_t num_layers, const PipelineSplit& split);

  /// Layers of the first chunks of all stages, including the places of embedding and loss.
  int64_t layers_of_round() const { return first_ + (stages_ - 2) * middle_ + last_; }

  int64_t stages_, chunks_;
  /// Layers in a chunk of the first stage, of the last one if there are several, and of those
  /// between.
  int64_t first_ = 0, last_ = 0, middle_ = 0;
  bool embedding_takes_a_place_ = false, loss_takes_a_place_ = false;
  /// Set if a layout is given: the number of layers up to the end of each chunk, in the model's
  /// order.
  std::vector<int64_t> ends_;
};

}  // namespace meg::model
