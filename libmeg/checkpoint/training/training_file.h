#pragma once

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/training/training_tree.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

struct TrainingFileOptions {
  /// kMpRank or kTorchDist, whose names are always those of Transformer Engine.
  CheckpointFormat format = CheckpointFormat::kMpRank;
  /// kMcoreLocal or kMcoreTransformerEngine, as core_v0.12.3 writes by --transformer-impl, or
  /// kLegacy, as 6ef5bdc.
  model::NameFamily names = model::NameFamily::kMcoreLocal;
  /// Adds core's `rerun_state_machine`, of a run in which nothing was run again. Readers do without
  /// it; with it, a file can only be unpickled where megatron.core can be imported.
  bool rerun_state_machine = false;
};

/// The content of a rank's model_optim_rng.pt: keys, names and orders as Megatron-LM's
/// generate_state_dict and optimizers make them. The result's sources point into `state`.
/// kInvalidArgument where the state is not whole: args that loaders ask for, parameters missing, of
/// another shape or unknown to the model that args describe, an optimizer's tensors on some
/// parameters only.
Result<TrainingTree> build_training_file(const TrainingState& state,
                                         const TrainingFileOptions& options);

}  // namespace meg::checkpoint
