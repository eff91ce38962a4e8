#pragma once

#include <memory>

#include "libmeg/parallel/process_group.h"

namespace meg::nn {

/// The ranks over which layers are divided, this one included.
struct TensorParallel {
  std::shared_ptr<parallel::ProcessGroup> group = parallel::single_rank_group();
  /// Whether each rank has, between the matrices, one part of every sequence, in the order of the
  /// ranks.
  bool sequence_parallel = false;

  int rank() const { return group->rank(); }

  int size() const { return group->size(); }

  bool splits_sequences() const { return sequence_parallel && size() > 1; }
};

}  // namespace meg::nn
