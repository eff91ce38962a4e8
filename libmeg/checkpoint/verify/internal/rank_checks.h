#pragma once

#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/verify/internal/checkpoint_ranks.h"

namespace meg::checkpoint {

// The checks of verify_checkpoint() that need metadata only. Each adds problems and notes to
// `report`.

/// Iteration (of the ranks and of the folder's name), checkpoint version, and every field of args
/// except those that differ by design (rank, local_rank) are equal on all ranks; sizes in args are
/// consistent.
void check_agreement(const CheckpointRanks& ranks, const CheckpointFolder& folder,
                     const VerifyCheckpointOptions& options, CheckpointReport* report);

/// Every layer exists exactly once and completely, every parameter of the model that args describe
/// exists, all tensor ranks of a stage hold the same names, shapes and dtypes, and the shapes are
/// those that follow from args.
void check_parameters(const CheckpointRanks& ranks, CheckpointReport* report);

/// Either all ranks hold an optimizer or none; every parameter has the same kinds of state; the
/// groups' fields, the steps and the scheduler are equal on all ranks.
void check_optimizers(const CheckpointRanks& ranks, CheckpointReport* report);

/// All ranks hold the states of the same random number generators, and the same loss scaler with a
/// finite scale; args with fp16 require one.
void check_state(const CheckpointRanks& ranks, CheckpointReport* report);

}  // namespace meg::checkpoint
