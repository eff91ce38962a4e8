#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/status.h"

namespace meg::checkpoint {

/// What can be wrong with a checkpoint, roughly in the order in which it is checked.
enum class CheckpointCheck : uint8_t {
  kTracker,               ///< The tracker file names no folder, or is none.
  kRankFiles,             ///< Rank files missing or too many, counted against args.
  kFile,                  ///< A file that cannot be opened or read: truncated, damaged.
  kCrc,                   ///< Bytes that are not those that were written.
  kIteration,             ///< Ranks, or the folder's name, disagree.
  kCheckpointVersion,     ///< Ranks disagree.
  kArgs,                  ///< A field of args that should be equal on all ranks and is not.
  kSizes,                 ///< Sizes in args that contradict each other or the tensors.
  kNames,                 ///< Parameters missing, twice, unknown, or not on every tensor rank.
  kShapes,                ///< A tensor's shape or dtype.
  kReplicas,              ///< Tensors that every tensor rank holds, unequal.
  kTiedEmbeddings,        ///< The last stage's copy of the embedding, unequal.
  kNotFinite,             ///< NaN or Inf.
  kNegative,              ///< Second moments below zero; verify_checkpoint makes it a note.
  kOptimizer,             ///< Parameters without state, state without parameter, unequal steps.
  kMasters,               ///< 16-bit weights that are not their fp32 masters, rounded.
  kDistributedOptimizer,  ///< A distributed optimizer without the file of its state.
  kRandomStates,          ///< States of random number generators that some ranks alone have.
  kLossScaler,            ///< Missing, unequal, or with a scale that is no number above 0.
  kStructure,             ///< Anything else that keeps the ranks from being one model.
};

/// Such as "tied_embeddings"; a field of the --json output.
std::string_view checkpoint_check_name(CheckpointCheck check);

/// One thing wrong. Fields that say nothing are empty.
struct CheckpointProblem {
  CheckpointCheck check = CheckpointCheck::kStructure;
  std::string file = {};    ///< A path.
  std::string tensor = {};  ///< "decoder.layers.3.mlp.linear_fc1.weight exp_avg"; or what else.
  std::vector<int64_t> index = {};  ///< Of the first bad element, in the tensor of that file.
  std::string expected = {};
  std::string found = {};
  int64_t count = 1;  ///< Elements; for shapes tensors, for rank_files files.
  std::string likely_cause = {};

  /// One line: `FILE: CHECK: TENSOR[INDEX]: expected X, found Y (and N - 1 more); likely cause: Z`.
  std::string message() const;
};

/// A problem out of an error: its message becomes `found`, without the file's path in front.
CheckpointProblem problem_of(CheckpointCheck check, const std::string& file, const Status& error);

/// The index of element `place` in row-major order.
std::vector<int64_t> index_of(int64_t place, const std::vector<int64_t>& shape);

}  // namespace meg::checkpoint
