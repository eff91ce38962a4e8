#pragma once

#include <cstdint>

#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// The parallel ranks of one process.
struct RankPlace {
  int64_t tensor_rank = 0;
  int64_t expert_rank = 0;
  int64_t expert_tensor_rank = 0;  ///< Among the ranks over which an expert is divided.

  bool operator==(const RankPlace&) const = default;
};

/// The processes of a pipeline stage that save rank files: the first ones of the stage, as many as
/// hold every expert once. Without experts, or if experts are divided over all tensor-parallel
/// ranks, these are all pairs of a tensor-parallel and an expert-parallel rank. Otherwise a
/// tensor-parallel rank meets only some of the expert-parallel ranks.
/// Mirrors Megatron-LM megatron/core/parallel_state.py (RankGenerator, tp-cp-ep-dp-pp) and
/// megatron/training/checkpointing.py: save_checkpoint, get_checkpoint_name.
class RankGrid {
 public:
  /// One process.
  RankGrid() = default;

  /// kUnsupported for sizes whose processes do not save all tensor-parallel ranks, or write files
  /// of one name; kInvalidArgument for sizes below 1 or too large.
  static Result<RankGrid> create(int64_t tensor_size, int64_t expert_size,
                                 int64_t expert_tensor_size);

  int64_t tensor_size() const { return tensor_size_; }

  int64_t expert_size() const { return expert_size_; }

  int64_t expert_tensor_size() const { return expert_tensor_size_; }

  /// Files of a stage.
  int64_t size() const { return expert_size_ * expert_tensor_size_; }

  /// Files of each tensor-parallel rank; in a row.
  int64_t files_of_tensor_rank() const { return size() / tensor_size_; }

  /// The ranks of file `index`: files are ordered by tensor-parallel rank, then by expert-parallel
  /// rank.
  RankPlace place(int64_t index) const;

  /// The file that has this part of the experts of an expert-parallel rank.
  int64_t index_of(int64_t expert_rank, int64_t expert_tensor_rank) const;

  /// Whether a file is the first one of its tensor-parallel rank.
  bool is_first_of_tensor_rank(const RankPlace& place) const {
    return place.expert_rank * expert_tensor_size_ + place.expert_tensor_rank < tensor_size_;
  }

  /// Whether experts are divided over other ranks than the rest of the model.
  bool divides_experts_apart() const { return expert_tensor_size_ != tensor_size_; }

 private:
  int64_t tensor_size_ = 1, expert_size_ = 1, expert_tensor_size_ = 1;
};

}  // namespace meg::checkpoint
