#pragma once

#include "libmeg/base/status.h"
#include "libmeg/megatron/argument_values.h"

namespace meg::app {

/// --use-checkpoint-args: what no flag says of the model comes from the checkpoint that --load
/// names. A flag that contradicts the checkpoint stays, for check_architecture to refuse.
/// kInvalidArgument without --load; else what opening gives.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: load_args_from_checkpoint.
Status take_checkpoint_args(megatron::ArgumentValues& args);

}  // namespace meg::app
