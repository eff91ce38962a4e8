#pragma once

#include <cstdint>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/training/training_state.h"

namespace meg::checkpoint {

/// What a run wants to load from a checkpoint. Names are those of Megatron's flags.
struct TrainingReadOptions {
  bool finetune = false;  ///< Loads weights only: iteration 0, no consumed samples.
  bool no_load_optim = false;
  bool no_load_rng = false;
  int64_t tensor_rank = 0, pipeline_rank = 0,
          data_rank = 0;  ///< The rank whose generators are read.

  /// Whether optimizer and scheduler are loaded from this checkpoint.
  bool loads_optimizer(const MegatronCheckpoint& checkpoint) const {
    return !finetune && !no_load_optim && !checkpoint.folder().is_release;
  }

  bool loads_rng(const MegatronCheckpoint& checkpoint) const {
    return !finetune && !no_load_rng && !checkpoint.folder().is_release;
  }
};

/// Everything but the parameters (read_training_tensors). A `release` counts as iteration 0 and has
/// no optimizer. `args` has the contents of the file's args, lists and enums included, but no
/// dicts. rng is also empty if the checkpoint has no such rank (another layout).
/// The scheduler's fields are as the file has them, under the names of its revision.
/// kNotFound if the optimizer, the scheduler or the generators are requested and absent (the
/// message names the flag that skips them), kUnsupported for the distributed optimizer, kCorruption
/// for values of other types and bytes that differ from the files' CRCs.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: load_checkpoint.
Result<TrainingState> read_training_state(const MegatronCheckpoint& checkpoint,
                                          const TrainingReadOptions& options = {});

}  // namespace meg::checkpoint
