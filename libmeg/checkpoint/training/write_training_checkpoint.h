#pragma once

#include <span>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/training/training_file.h"
#include "libmeg/checkpoint/training/training_state.h"

namespace meg::checkpoint {

/// Writes one rank's part of a checkpoint into `folder`, which exists: the staging folder of a
/// checkpoint whose other ranks may be written by other processes. That is
/// mp_rank_TT[_PPP]/model_optim_rng.pt, of the first of the ranks that hold the same parameters; in
/// the torch_dist format files of every rank. Its content is not flushed to the device yet
/// (AtomicFolder::commit does it).
/// Errors: those of build_training_file; kResourceExhausted where the disk is full, saying how much
/// the file needs and how much is free.
Status write_training_file(const std::string& folder, const TrainingState& state,
                           const TrainingFileOptions& options);

/// Once every rank has written its part: what says of all of them that they are one checkpoint.
/// state: of any rank.
Status complete_training_folder(const std::string& folder, const TrainingState& state,
                                const TrainingFileOptions& options);

/// Writes save_dir/iter_XXXXXXX with the files of `ranks` (all those of a checkpoint, or a part of
/// them for tests), flushes it, renames it into place and, last, writes the tracker. Missing
/// folders are created. An older checkpoint of this iteration is replaced in one step. Whatever
/// fails, and whenever the process is killed: the tracker names a whole checkpoint, as before.
/// ranks: not empty, of one iteration.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: save_checkpoint.
Status write_training_checkpoint(const std::string& save_dir, std::span<const TrainingState> ranks,
                                 const TrainingFileOptions& options = {});

}  // namespace meg::checkpoint
