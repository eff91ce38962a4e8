#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// Whether two sources hold the same bytes: by the CRC-32s that their containers recorded where
/// both are of just them, otherwise by reading them.
Result<bool> same_bytes(const TensorSource& a, const TensorSource& b);

/// Compares the last stage's copy of a tied embedding with the embedding. kCorruption where the
/// weights differ; other state that differs becomes a note.
Status check_tied_copy(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                       std::vector<std::string>* notes);

/// Adds a note where replicated tensors differ between tensor-parallel ranks, as far as CRC-32s
/// tell: nothing is read.
void note_drifted_replicas(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                           std::vector<std::string>* notes);

}  // namespace meg::checkpoint
