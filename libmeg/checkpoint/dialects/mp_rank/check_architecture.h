#pragma once

#include <string_view>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// Whether a run may load this checkpoint: kInvalidArgument lists every arg of the model in which
/// the run differs, as "args: num_layers: expected 12, found 24; hidden_size: ...". run: the run's
/// args by Megatron's names; for what no module of the run knows, the default, so that a checkpoint
/// that asks for it differs. Compared is every field that the argument table calls the model's.
/// Sizes of parallelism are no difference, as loading reshapes; with them the padded vocabulary may
/// differ, as far as one true vocabulary explains both. Fields that the checkpoint does not have
/// are not compared, nor is bias_gelu_fusion: a run may choose GELU's other form.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: check_checkpoint_args, and compares
/// what else makes tensors of other shapes or meaning.
/// reason: stands before the list.
Status check_architecture(const MegatronCheckpoint& checkpoint, const megatron::FieldLookup& run,
                          std::string_view reason = "not the model of this run");

}  // namespace meg::checkpoint
