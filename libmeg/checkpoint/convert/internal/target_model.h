#pragma once

#include "libmeg/checkpoint/convert/internal/target_file.h"
#include "libmeg/checkpoint/convert/internal/target_layout.h"

namespace meg::checkpoint {

/// The model dict of one chunk: nested as the family nests its names, with this rank's tensors.
Result<PickleId> add_model(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                           const std::vector<TargetEntry>& chunk, TargetFile* target);

}  // namespace meg::checkpoint
