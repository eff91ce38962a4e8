#pragma once

#include "libmeg/base/result.h"
#include "libmeg/train/checkpointing.h"
#include "tools/pretrain_gpt/pretrain_gpt_flags.h"

namespace meg::tools {

/// Opens the run's tokenizer, for what the model and its data need to know of it. print: takes
/// Megatron's lines. Errors: those of open_run_tokenizer, and kInvalidArgument for a padded size
/// that is too small.
Result<Vocabulary> build_vocabulary(const PretrainFlags& run, const train::PrintLine& print);

}  // namespace meg::tools
