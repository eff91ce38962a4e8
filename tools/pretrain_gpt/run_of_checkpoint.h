#pragma once

#include <span>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "tools/pretrain_gpt/pretrain_gpt_flags.h"

namespace meg::tools {

/// Whether a command line says what the model is, or how it is to be found.
bool describes_model(const megatron::ArgumentValues& args);

/// Takes the run that saved the checkpoint in --load: every field of its args that `fields` names
/// and that no flag gave, except those about ranks, logs and what is loaded and saved.
/// kInvalidArgument without --load; kUnsupported, by name, for args that change a run's numbers and
/// are not read; else the errors of opening the checkpoint.
Status take_run_of_checkpoint(std::span<const std::string> fields, megatron::ArgumentValues& args);

/// Makes a run of several ranks one of a single rank that computes the same steps: of its batches,
/// layout and optimizer. Where flags leave the batch to the number of ranks, that of the
/// checkpoint's args counts.
Status make_one_rank(PretrainFlags& run);

}  // namespace meg::tools
