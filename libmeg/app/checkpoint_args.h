#pragma once

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/megatron/argument_values.h"

namespace meg::app {

/// --use-checkpoint-args: takes the model's arguments that no flag sets from the checkpoint that
/// --load names, and returns it, open for its args and weights. A flag that contradicts the
/// checkpoint is kept, and check_architecture refuses it. kInvalidArgument without --load;
/// otherwise the errors of opening the checkpoint.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: load_args_from_checkpoint.
Result<checkpoint::MegatronCheckpoint> take_checkpoint_args(megatron::ArgumentValues& args);

}  // namespace meg::app
