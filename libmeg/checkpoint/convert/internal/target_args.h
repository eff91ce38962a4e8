#pragma once

#include "libmeg/checkpoint/convert/internal/target_file.h"

namespace meg::checkpoint {

/// The args of a source file with the fields changed that must change, and no others: parallel
/// sizes, world_size, padded_vocab_size, what says how layers are split, and what says which model
/// reads the names. Fields that the source lacks are not added, but for padded_vocab_size. dtype:
/// of the weights, where args are to say another than the source's.
Result<PickleId> carry_args(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                            int source_file, PickleId args, std::optional<DType> dtype,
                            TargetFile* target);

}  // namespace meg::checkpoint
