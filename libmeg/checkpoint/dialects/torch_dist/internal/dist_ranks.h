#pragma once

#include <string>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"

namespace meg::checkpoint {

/// A torch_dist folder as the rank files that the same run would have saved in the torch format:
/// one for each model-parallel rank that args name (where args name none, the states of the random
/// number generators), composed of the folder's chunks and objects. Names are those of mcore models
/// with the layers that args.transformer_impl says; the optimizer has the plain form, whatever the
/// data-parallel ranks kept. Where args split the layers as no GPT model here is split, all layers
/// stand in one stage: the folder does not say where they stood.
/// ignore_optimizer: leaves out what the optimizer keeps, whatever its form.
/// kUnsupported, by name: parameters and optimizer state that this does not know. kCorruption: what
/// contradicts itself.
Result<RankFiles> open_torch_dist(const CheckpointFolder& folder, bool ignore_optimizer);

/// kFsdpDtensor where Megatron-FSDP named the items; else kTorchDist, of a folder too whose
/// `.metadata` cannot be read: opening it says why.
CheckpointFormat dist_format(const std::string& folder);

}  // namespace meg::checkpoint
