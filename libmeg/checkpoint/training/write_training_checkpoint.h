#pragma once

#include <span>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/training/training_file.h"
#include "libmeg/checkpoint/training/training_state.h"

namespace meg::checkpoint {

/// Writes one rank's part of a checkpoint into `folder`, which must exist: the staging folder of a
/// checkpoint whose other ranks may be written by other processes. In the torch format the first of
/// the ranks that hold the same parameters writes mp_rank_TT[_PPP]/model_optim_rng.pt; in the
/// torch_dist format every rank writes files. The contents are not flushed to the device yet
/// (AtomicFolder::commit does it).
/// Errors: those of build_training_file; kResourceExhausted if the disk is full, with the bytes
/// that the file needs and those that are free.
Status write_training_file(const std::string& folder, const TrainingState& state,
                           const TrainingFileOptions& options);

/// Completes the folder once every rank has written its part, with the files that describe all of
/// them. state: that of any rank.
Status complete_training_folder(const std::string& folder, const TrainingState& state,
                                const TrainingFileOptions& options);

/// Writes save_dir/iter_XXXXXXX with the files of `ranks` (all those of a checkpoint, or a part of
/// them for tests), flushes it, renames it into place and, last, writes the tracker. Missing
/// folders are created. An older checkpoint of this iteration is replaced in one step. Whatever
/// fails, and whenever the process is killed, the tracker names a whole checkpoint. ranks: not
/// empty, all of one iteration.
/// Mirrors Megatron-LM megatron/training/checkpointing.py: save_checkpoint.
Status write_training_checkpoint(const std::string& save_dir, std::span<const TrainingState> ranks,
                                 const TrainingFileOptions& options = {});

}  // namespace meg::checkpoint
