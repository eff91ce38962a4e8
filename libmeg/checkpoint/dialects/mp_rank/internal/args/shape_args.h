#pragma once

#include <cstdint>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"
#include "libmeg/model/parameter_count.h"

namespace meg::checkpoint {

/// Sets the args that a model's sizes say.
void set_shape_args(const model::GptConfig& model, TrainingArgs* args);

/// Those that its layout and names say: one data-parallel rank.
void set_layout_args(const model::ParallelSizes& sizes, model::NameFamily names,
                     TrainingArgs* args);

/// Those that the type of its weights says.
void set_dtype_args(DType dtype, TrainingArgs* args);

/// Adds args for a checkpoint whose files have none: what its config says, which the caller's flags
/// gave, and the target's layout. vocab_rows: of the target's padded table.
Result<PickleId> add_made_args(const MegatronCheckpoint& checkpoint,
                               const model::ParallelSizes& sizes, model::NameFamily names,
                               int64_t vocab_rows, PickleGraph* graph);

}  // namespace meg::checkpoint
