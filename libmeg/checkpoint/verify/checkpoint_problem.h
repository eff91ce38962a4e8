#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/problem.h"
#include "libmeg/base/status.h"

namespace meg::checkpoint {

/// Names of what can be wrong with a checkpoint, roughly in the order in which it is checked.
struct CheckpointCheck {
  /// The tracker file names no existing folder, or is not a tracker file.
  static constexpr std::string_view kTracker = "tracker";
  /// Rank files missing or too many, counted against args.
  static constexpr std::string_view kRankFiles = "rank_files";
  /// A file that cannot be opened or read: truncated, damaged.
  static constexpr std::string_view kFile = "file";
  /// Bytes that differ from those that were written.
  static constexpr std::string_view kCrc = "crc";
  /// Ranks disagree with each other or with the folder's name.
  static constexpr std::string_view kIteration = "iteration";
  /// Ranks disagree.
  static constexpr std::string_view kCheckpointVersion = "checkpoint_version";
  /// A field of args that should be equal on all ranks and is not.
  static constexpr std::string_view kArgs = "args";
  /// Sizes in args that contradict each other or the tensors.
  static constexpr std::string_view kSizes = "sizes";
  /// Parameters that are missing, repeated, unknown, or not on every tensor rank.
  static constexpr std::string_view kNames = "names";
  /// A tensor's shape or dtype.
  static constexpr std::string_view kShapes = "shapes";
  /// Copies of replicated tensors that differ between tensor ranks.
  static constexpr std::string_view kReplicas = "replicas";
  /// The last stage's copy of the embedding differs from the embedding.
  static constexpr std::string_view kTiedEmbeddings = "tied_embeddings";
  /// NaN or Inf.
  static constexpr std::string_view kNotFinite = "not_finite";
  /// Second moments below zero; verify_checkpoint makes it a note.
  static constexpr std::string_view kNegative = "negative";
  /// Parameters without state, state without parameter, unequal steps.
  static constexpr std::string_view kOptimizer = "optimizer";
  /// 16-bit weights that are not their fp32 masters, rounded.
  static constexpr std::string_view kMasters = "masters";
  /// A distributed optimizer without the file of its state.
  static constexpr std::string_view kDistributedOptimizer = "distributed_optimizer";
  /// States of random number generators that only some ranks have.
  static constexpr std::string_view kRandomStates = "random_states";
  /// Missing, unequal, or with a scale that is not a number above 0.
  static constexpr std::string_view kLossScaler = "loss_scaler";
  /// Anything else that keeps the ranks from being one model.
  static constexpr std::string_view kStructure = "structure";
};

/// Turns an error into a problem: its message becomes `found`, without the file's path in front.
Problem problem_of(std::string_view check, const std::string& file, const Status& error);

/// The index of element `place` in row-major order.
std::vector<int64_t> index_of(int64_t place, const std::vector<int64_t>& shape);

}  // namespace meg::checkpoint
