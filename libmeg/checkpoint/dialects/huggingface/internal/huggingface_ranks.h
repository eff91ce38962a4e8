#pragma once

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"

namespace meg::checkpoint {

/// A Hugging Face folder as the file that one rank of Megatron would have saved of its model: args,
/// and the weights with mcore's names, composed of the folder's tensors. fallback: asked for
/// make_vocab_size_divisible_by, which no config.json says. Errors: those of
/// open_huggingface_checkpoint.
Result<RankFiles> open_huggingface(const CheckpointFolder& folder,
                                   const megatron::FieldLookup& fallback);

}  // namespace meg::checkpoint
