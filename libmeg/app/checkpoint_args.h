#pragma once

#include "libmeg/base/status.h"
#include "libmeg/megatron/argument_values.h"

namespace meg::app {

/// --use-checkpoint-args: takes the model's arguments that no flag sets from the checkpoint that
/// --load names. A flag that contradicts the checkpoint is kept, and check_architecture refuses it.
/// kInvalidArgument without --load; otherwise the errors of opening the checkpoint.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: load_args_from_checkpoint.
Status take_checkpoint_args(megatron::ArgumentValues& args);

}  // namespace meg::app
