#pragma once

#include "libmeg/checkpoint/convert/internal/target_file.h"
#include "libmeg/checkpoint/convert/internal/target_layout.h"

namespace meg::checkpoint {

/// Fills `target` with the dict that the rank of stage `stage` saves: the top-level keys of the
/// source in their order, with new values for everything that layouts decide (args, model,
/// optimizer) and everything else as the source's rank at its place has it.
Status add_tree(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                const ReshardOptions& options, int64_t stage, TargetFile* target);

/// The type of the weights that args are to say; nullopt: as they do. The form of an optimizer that
/// is kept goes with the type that args say.
std::optional<DType> said_dtype(const ReshardOptions& options,
                                const MegatronCheckpoint& checkpoint);

/// Whether ranks take over generators that were another rank's, so that seeds are moved.
bool moves_rng_seeds(const MegatronCheckpoint& checkpoint, const TargetLayout& layout);

}  // namespace meg::checkpoint
