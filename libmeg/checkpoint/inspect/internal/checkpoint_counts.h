#pragma once

#include "libmeg/checkpoint/inspect/checkpoint_summary.h"

namespace meg::checkpoint {

/// Counts tensors by group and dtype, and each rank's bytes of them: fills `shares`,
/// `optimizer_bytes` and RankSummary::tensor_bytes. Sums saturate at the largest int64_t, because
/// tensors that repeat elements may claim any number of them.
void count_tensors(CheckpointSummary& summary);

/// Counts the elements of the parameters of `summary.whole`, in all and for each rank and file,
/// with padding and, if true_vocab_size is set, without; also sets the family of names.
void count_parameters(CheckpointSummary& summary);

/// The same for files that do not form a whole model: parameters are recognized by their names
/// alone, and only files and ranks get sums. Errors: those of the param rules.
Status count_parameters_of_files(const OpenCheckpointOptions& options, CheckpointSummary& summary);

}  // namespace meg::checkpoint
