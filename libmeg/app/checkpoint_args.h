#pragma once

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/model/parameter_table.h"

namespace meg::app {

/// --use-checkpoint-args: takes the model's arguments that no flag sets from the checkpoint that
/// --load names. A flag that contradicts the checkpoint is kept, and check_architecture refuses it.
/// Returns the checkpoint's names: of a HybridModel, its arguments are those of the GPT model that
/// it is. kInvalidArgument without --load; otherwise the errors of opening the checkpoint.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: load_args_from_checkpoint.
Result<model::NameFamily> take_checkpoint_args(megatron::ArgumentValues& args);

/// Whether args let take_checkpoint_tokenizer() take one.
bool takes_checkpoint_tokenizer(megatron::FieldReader& args);

/// Where args name no tokenizer, takes the arguments of the tokenizer of the checkpoint that --load
/// names: of a Hugging Face folder, its own; else the one that its args name, with the files in the
/// folder `tokenizer` beside the weights, or else where the args say. Does nothing where the
/// checkpoint cannot be opened or says nothing of a tokenizer: what follows says so. kNotFound
/// where the files of its tokenizer are not there. Mirrors Megatron-LM's
/// use_tokenizer_model_from_checkpoint_args.
Status take_checkpoint_tokenizer(megatron::ArgumentValues& args);

}  // namespace meg::app
