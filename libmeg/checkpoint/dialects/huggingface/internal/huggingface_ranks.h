#pragma once

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"

namespace meg::checkpoint {

/// Reads a Hugging Face folder as the file that one rank of Megatron would have saved for the same
/// model: args, and the weights under mcore's names, composed from the folder's tensors. fallback:
/// provides make_vocab_size_divisible_by, which no config.json has. Errors: those of
/// open_huggingface_checkpoint.
Result<RankFiles> open_huggingface(const CheckpointFolder& folder,
                                   const megatron::FieldLookup& fallback);

}  // namespace meg::checkpoint
