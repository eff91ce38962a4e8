#pragma once

#include <string_view>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"

namespace meg::checkpoint {

/// Whether a run may load this checkpoint: kInvalidArgument lists every arg of the model in which
/// the run differs, as "args: num_layers: expected 12, found 24; hidden_size: ...". run: the run's
/// args under Megatron's names; for fields that no module of the run reads, the default, so that a
/// checkpoint with another value differs. Compares every field that the argument table assigns to
/// the model. Parallel sizes may differ, because loading reshapes, and so may the padded vocabulary
/// if one true vocabulary explains both. Fields that the checkpoint does not have are not compared,
/// nor is bias_gelu_fusion: a run may choose GELU's other form.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: check_checkpoint_args, and compares
/// what else makes tensors of other shapes or meaning.
/// reason: precedes the list in the error.
Status check_architecture(const MegatronCheckpoint& checkpoint, const megatron::FieldLookup& run,
                          std::string_view reason = "not the model of this run");

/// Adds to the args that a run saves what it continues with from this checkpoint without a flag for
/// it: the tokens of tables that came without padding rows (true_vocab_size), if the run has
/// their rows and its tokenizer no more, and the window of attention that it stays inside of.
void keep_unsaid_args(const MegatronCheckpoint& checkpoint, TrainingArgs* args);

}  // namespace meg::checkpoint
