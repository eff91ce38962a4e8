#pragma once

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The parameter that tied_copy() is a copy of; nullptr if there is none.
const LogicalParameter* word_embeddings(const MegatronCheckpoint& checkpoint);

/// Whoever reads a model reads the embedding and leaves the tied copy out, be it the last stage's
/// or an output layer that a single rank holds although args say that there is none. kCorruption if
/// its weights are not those of the embedding: the checkpoint is damaged or mixed, and either may
/// be the right one.
Status check_tied_copy(const MegatronCheckpoint& checkpoint);

}  // namespace meg::checkpoint
