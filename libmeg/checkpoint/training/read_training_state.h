#pragma once

#include <cstdint>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/training/training_state.h"

namespace meg::checkpoint {

/// What a run asks of a checkpoint. Names are Megatron's flags.
struct TrainingReadOptions {
  bool finetune = false;  ///< Weights alone: iteration 0, no consumed samples.
  bool no_load_optim = false;
  bool no_load_rng = false;
  int64_t tensor_rank = 0, pipeline_rank = 0, data_rank = 0;  ///< Whose generators.

  /// Whether optimizer and scheduler are loaded from this checkpoint.
  bool loads_optimizer(const MegatronCheckpoint& checkpoint) const {
    return !finetune && !no_load_optim && !checkpoint.folder().is_release;
  }

  bool loads_rng(const MegatronCheckpoint& checkpoint) const {
    return !finetune && !no_load_rng && !checkpoint.folder().is_release;
  }
};

/// Everything but the parameters (read_training_tensors). A `release` counts as iteration 0 and has
/// no optimizer. In `args` is what the file's args hold, lists and enums too; dicts are left out.
/// rng is empty as well where the checkpoint has no rank at this place (another layout).
/// The scheduler's fields are as the file has them, under the names of its revision.
/// kNotFound where the optimizer, the scheduler or the generators are requested and absent (the
/// message names the flag that does without), kUnsupported for the distributed optimizer,
/// kCorruption for values of other types and where bytes differ from the files' CRCs.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: load_checkpoint.
Result<TrainingState> read_training_state(const MegatronCheckpoint& checkpoint,
                                          const TrainingReadOptions& options = {});

}  // namespace meg::checkpoint
