#pragma once

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/training/training_tree.h"
#include "libmeg/model/parallel_sizes.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

struct TrainingFileOptions {
  /// kMpRank or kTorchDist, whose names are always those of Transformer Engine.
  CheckpointFormat format = CheckpointFormat::kMpRank;
  /// kMcoreLocal or kMcoreTransformerEngine, which core_v0.12.3 chooses by --transformer-impl, or
  /// kLegacy, the names of 6ef5bdc.
  model::NameFamily names = model::NameFamily::kMcoreLocal;
  /// Adds core's `rerun_state_machine`, in the state of a run that repeated nothing. Readers do not
  /// need it, and a file with it can only be unpickled where megatron.core can be imported.
  bool rerun_state_machine = false;
};

/// kUnsupported for sizes with which not all ranks of a model with experts would have a file of
/// their own in the torch format.
Status check_expert_sizes(const model::ParallelSizes& sizes, CheckpointFormat format);

/// The content of a rank's model_optim_rng.pt: keys, names and orders as Megatron-LM's
/// generate_state_dict and optimizers make them. The result's sources point into `state`.
/// kInvalidArgument if the state is incomplete: missing args that loaders need; parameters that are
/// missing, of another shape, or not in the model that args describe; an optimizer's tensors for
/// only some parameters.
Result<TrainingTree> build_training_file(const TrainingState& state,
                                         const TrainingFileOptions& options);

}  // namespace meg::checkpoint
