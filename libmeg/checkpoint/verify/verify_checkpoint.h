#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/verify/checkpoint_problem.h"

namespace meg::checkpoint {

struct VerifyCheckpointOptions {
  std::optional<int64_t> iteration = {};   ///< As for find_checkpoint().
  bool check_crcs = true;                  ///< Compares the archives' CRC-32s.
  bool allow_nan = false;                  ///< NaN and Inf are not problems.
  std::optional<int64_t> vocab_size = {};  ///< Tokens for which the table must have rows.
  OpenCheckpointOptions open = {};
  int workers = 1;                 ///< Threads that read tensors.
  ProgressCallback progress = {};  ///< Bytes; may be empty.
};

/// The result of verify_checkpoint(). Fields are set as far as they could be read.
struct CheckpointReport {
  std::string folder;  ///< iter_0005000 or release (a path).
  CheckpointFormat format = CheckpointFormat::kMpRank;
  std::optional<int64_t> iteration;
  double checkpoint_version = 0;
  int64_t tensor_model_parallel_size = 0;
  int64_t pipeline_model_parallel_size = 0;
  int64_t virtual_pipeline_model_parallel_size = 0;
  int64_t expert_model_parallel_size = 0;
  std::string names;            ///< name_family_text
  int64_t rank_files = 0;       ///< Number of rank files that could be opened.
  int64_t parameter_count = 0;  ///< Elements of the whole model; 0 if it is incomplete.
  OptimizerForm optimizer = OptimizerForm::kNone;
  int64_t tensors = 0;  ///< Tensors whose values were read.
  int64_t bytes = 0;    ///< Size of all files.
  std::vector<std::string> notes;
  std::vector<Problem> problems;

  bool ok() const { return problems.empty(); }
};

/// Checks everything that can be checked in a checkpoint in mp_rank folders, and continues after a
/// problem as far as possible. Every tensor is read once, in bounded memory. A damaged checkpoint
/// gives a report with problems; an error means that it could not be checked: no such path
/// (kNotFound), an unsupported format or form (kUnsupported, with its name), rules that cannot be
/// parsed (kInvalidArgument), or kCancelled.
Result<CheckpointReport> verify_checkpoint(const std::string& path,
                                           const VerifyCheckpointOptions& options);

}  // namespace meg::checkpoint
