#pragma once

#include "libmeg/checkpoint/convert/internal/target_file.h"

namespace meg::checkpoint {

/// The checkpoint_version from which on the rows of query_key_value lie head by head.
inline constexpr double kHeadByHead = 2.0;

class ArgsEditor;

/// Makes args those of a hybrid model, which has two layers for one of GPT and says so in
/// hybrid_layer_pattern, or of GPT where they were a hybrid model's. segments: GPT's layers of each
/// pipeline segment.
void set_hybrid_layers(const MegatronCheckpoint& checkpoint, model::NameFamily family,
                       std::vector<int64_t> segments, ArgsEditor* args);

/// The args of a source file with the fields changed that must change, and no others: parallel
/// sizes, world_size, padded_vocab_size, what says how layers are split, and what says which model
/// reads the names. Fields that the source lacks are not added, but for padded_vocab_size and the
/// hybrid_layer_pattern of hybrid names. dtype: of the weights, where args are to say another than
/// the source's.
Result<PickleId> carry_args(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                            int source_file, PickleId args, std::optional<DType> dtype,
                            TargetFile* target);

}  // namespace meg::checkpoint
