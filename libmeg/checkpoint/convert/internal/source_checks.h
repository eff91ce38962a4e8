#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The error for an optimizer of the form kDistributed, whose state is missing.
Status missing_distrib_optim(const MegatronCheckpoint& checkpoint);

/// Compares fp32 masters with their weights, a few numbers of each piece. kCorruption if they do
/// not belong together, because training continues from the masters, whatever the weights are. That
/// happens after edits of the weights alone, and in folders that megatron-core saved in the form
/// fully_reshardable from buckets with padding between them, which shifts all state after the
/// first.
Status check_masters(const MegatronCheckpoint& checkpoint);

/// Compares the last stage's copy of a tied embedding with the embedding: see the check_tied_copy()
/// of weights. If other state differs, a note says so: it may have drifted apart in training, which
/// continues from either.
Status check_tied_copy(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                       std::vector<std::string>* notes);

/// Adds a note if replicated tensors differ between tensor-parallel ranks, judged by the recorded
/// CRC-32s alone: no data are read.
void note_drifted_replicas(const MegatronCheckpoint& checkpoint, bool with_optimizer,
                           std::vector<std::string>* notes);

}  // namespace meg::checkpoint
