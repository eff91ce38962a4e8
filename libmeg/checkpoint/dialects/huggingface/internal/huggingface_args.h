#pragma once

#include "libmeg/checkpoint/dialects/huggingface/huggingface_checkpoint.h"
#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"

namespace meg::checkpoint {

/// Megatron's args for a Hugging Face model on one rank, with mcore's names: for loaders and
/// --use-checkpoint-args.
TrainingArgs huggingface_args(const HuggingFaceCheckpoint& checkpoint);

}  // namespace meg::checkpoint
