#pragma once

#include <cstdint>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"
#include "libmeg/model/parameter_count.h"
#include "libmeg/model/pipeline_layout.h"

namespace meg::checkpoint {

/// Sets the args that follow from a model's sizes.
void set_shape_args(const model::GptConfig& model, TrainingArgs* args);

/// The args that follow from layout and names, with one data-parallel rank.
void set_layout_args(const model::ParallelSizes& sizes, model::NameFamily names,
                     TrainingArgs* args);

/// Turns args of a GPT model into those of the HybridModel that has its layers, split as in
/// `layout`, under the name that the args' revision has for the pattern.
void set_hybrid_args(const model::PipelineLayout& layout, const model::GptConfig& config,
                     TrainingArgs* args);

/// The args that follow from the dtype of the weights.
void set_dtype_args(DType dtype, TrainingArgs* args);

/// Adds args to a checkpoint whose files have none: the config given by the caller's flags, and the
/// target's layout. vocab_rows: rows of the target's padded table.
Result<PickleId> add_made_args(const MegatronCheckpoint& checkpoint,
                               const model::ParallelSizes& sizes, model::NameFamily names,
                               int64_t vocab_rows, PickleGraph* graph);

}  // namespace meg::checkpoint
