#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The error for an optimizer of the form kDistributed.
Status missing_distrib_optim(const MegatronCheckpoint& checkpoint);

/// Compares the last stage's copy of a tied embedding with the embedding. kCorruption where the
/// weights differ; other state that differs becomes a note.
Status check_tied_copy(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                       std::vector<std::string>* notes);

/// Adds a note where replicated tensors differ between tensor-parallel ranks, as far as CRC-32s
/// tell: nothing is read.
void note_drifted_replicas(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                           std::vector<std::string>* notes);

}  // namespace meg::checkpoint
