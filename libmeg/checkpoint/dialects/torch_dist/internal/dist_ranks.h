#pragma once

#include <string>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"

namespace meg::checkpoint {

/// Reads a torch_dist folder as the rank files that the same run would have saved in the torch
/// format: one for each model-parallel rank according to args (or, without them, to the states of
/// random number generators), composed from the folder's chunks and objects. Names are those of
/// mcore models with the implementation that args.transformer_impl names; the optimizer has the
/// plain form, whatever form the data-parallel ranks saved. If args split the layers in a way that
/// is not supported here, all layers are placed in one stage, because the folder does not say where
/// they were. ignore_optimizer: leaves out optimizer state, whatever its form. kUnsupported, with
/// the name: unknown parameters and optimizer state. kCorruption: contradictions.
Result<RankFiles> open_torch_dist(const CheckpointFolder& folder, bool ignore_optimizer);

/// kFsdpDtensor if Megatron-FSDP named the items; otherwise kTorchDist, even if `.metadata` cannot
/// be read: opening the folder reports why.
CheckpointFormat dist_format(const std::string& folder);

}  // namespace meg::checkpoint
