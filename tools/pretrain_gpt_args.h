#pragma once

#include "libmeg/checkpoint/training/training_args.h"
#include "libmeg/core/result.h"
#include "tools/common/data_run.h"
#include "tools/pretrain_gpt_flags.h"

namespace meg::tools {

/// Megatron's args of a run, as its checkpoints keep them; the model's among them from --load where
/// --use-checkpoint-args is given. Errors: those of opening that checkpoint.
Result<TrainingArgs> pretrain_args(const PretrainFlags& run, const DataRun& data,
                                   const Vocabulary& vocabulary);

}  // namespace meg::tools
