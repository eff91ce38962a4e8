#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/nn/gpt_model.h"

namespace meg::nn {

struct LoadWeightsOptions {
  /// Tokens of the unpadded vocabulary: padding rows that the model lacks may then be dropped.
  /// Without it, a model with fewer rows than the checkpoint is an error.
  std::optional<int64_t> true_vocab_size;
};

/// Fills a model (or part of one) with a checkpoint's weights, whatever its layout: widens 16-bit
/// weights and rounds others to the model's dtype. Rows of the vocabulary that the checkpoint lacks
/// repeat its last one, like the padding of Megatron's checkpoint_util.
/// Errors: kInvalidArgument, with the name, if a parameter is missing, unexpected or of another
/// shape; those of read_training_tensors().
Status load_weights(const checkpoint::MegatronCheckpoint& checkpoint, GptModel& model,
                    const LoadWeightsOptions& options = {});

}  // namespace meg::nn
