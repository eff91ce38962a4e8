#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/nn/gpt_model.h"

namespace meg::nn {

struct LoadWeightsOptions {
  /// Tokens of the unpadded vocabulary: padding rows that the model has no place for may then be
  /// left out. Without it a model with fewer rows than the checkpoint is an error.
  std::optional<int64_t> true_vocab_size;
};

/// Fills a model (or the part of one) with a checkpoint's weights, however its ranks lie: 16-bit
/// weights widen, others are rounded to the model's type. Rows of the vocabulary that the
/// checkpoint lacks repeat its last one, as Megatron's checkpoint_util pads.
/// Errors: kInvalidArgument, by name, where a parameter is missing, is too many or has another
/// shape; what read_training_tensors says, which does the reading.
Status load_weights(const checkpoint::MegatronCheckpoint& checkpoint, GptModel& model,
                    const LoadWeightsOptions& options = {});

}  // namespace meg::nn
