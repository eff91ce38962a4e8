#pragma once

#include "libmeg/checkpoint/convert/internal/target_file.h"

namespace meg::checkpoint {

/// The first checkpoint_version in which the rows of query_key_value are grouped by head.
inline constexpr double kHeadByHead = 2.0;

class ArgsEditor;

/// Turns args into those of a hybrid model, which has two layers for each one of GPT's, as its
/// hybrid_layer_pattern says, or into GPT's if they were a hybrid model's. segments: the number of
/// GPT layers in each pipeline segment.
void set_hybrid_layers(const MegatronCheckpoint& checkpoint, model::NameFamily family,
                       std::vector<int64_t> segments, ArgsEditor* args);

/// Copies the args of a source file and changes only the fields that must change: parallel sizes,
/// world_size, padded_vocab_size, the split of the layers, and which model reads the names. Adds no
/// field that the source lacks, except padded_vocab_size and, for hybrid names,
/// hybrid_layer_pattern. dtype: that of the weights, if args are to state another one than the
/// source's.
Result<PickleId> carry_args(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                            int source_file, PickleId args, std::optional<DType> dtype,
                            TargetFile* target);

}  // namespace meg::checkpoint
