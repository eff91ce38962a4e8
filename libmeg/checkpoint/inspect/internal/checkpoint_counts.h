#pragma once

#include "libmeg/checkpoint/inspect/checkpoint_summary.h"

namespace meg::checkpoint {

/// Tensors by group and dtype, and each rank's bytes of them: fills `shares`, `optimizer_bytes` and
/// RankSummary::tensor_bytes. Sums stop at the largest int64_t, as tensors that repeat elements may
/// claim any number of them.
void count_tensors(CheckpointSummary& summary);

/// Elements of the parameters of `summary.whole`, of each rank and file too, with and without the
/// padding that true_vocab_size leaves, where that is set; and the family of names.
void count_parameters(CheckpointSummary& summary);

/// The same of files that make no whole model: parameters are known by their names alone, and only
/// files and ranks have sums. Errors: those of the param rules.
Status count_parameters_of_files(const OpenCheckpointOptions& options, CheckpointSummary& summary);

}  // namespace meg::checkpoint
