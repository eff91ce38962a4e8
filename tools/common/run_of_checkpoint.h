#pragma once

#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"
#include "libmeg/megatron/argument_values.h"
#include "tools/common/flag_groups/data_flags.h"

namespace meg::tools {

/// Whether a command line says what the model is, or how it is to be found.
bool describes_model(const megatron::ArgumentValues& args);

/// Whether a field of saved args is what Megatron's validate_args made of others, though no command
/// line gave it.
bool is_derived_argument(const checkpoint::TrainingArgs& saved, std::string_view dest);

/// The args of the checkpoint that --load and --ckpt-step name. kInvalidArgument without --load or
/// without args of a run; else the errors of opening it.
Result<checkpoint::TrainingArgs> args_of_load(const megatron::ArgumentValues& args);

/// Takes the run that saved the checkpoint in --load: every field of its args that `fields` names
/// and that no flag gave, except those about ranks, logs and what is loaded and saved.
/// kInvalidArgument without --load; kUnsupported, by name, for args that change a run's numbers and
/// are not read; else the errors of opening the checkpoint.
Status take_run_of_checkpoint(std::span<const std::string> fields, megatron::ArgumentValues& args);

/// Makes a run of several ranks one of a single rank that computes the same steps: of its batches,
/// layout and optimizer. Where flags leave the batch to the number of ranks, that of the
/// checkpoint's args counts.
Status make_one_rank(megatron::ArgumentValues& args, DataFlags& data);

}  // namespace meg::tools
