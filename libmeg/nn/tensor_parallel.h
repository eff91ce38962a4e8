#pragma once

#include <memory>

#include "libmeg/parallel/process_group.h"

namespace meg::nn {

/// The ranks that hold a layer together with this one.
struct TensorParallel {
  std::shared_ptr<parallel::ProcessGroup> group = parallel::single_rank_group();
  /// Between the matrices each rank has a part of every sequence, in the order of the ranks.
  bool sequence_parallel = false;

  int rank() const { return group->rank(); }

  int size() const { return group->size(); }

  bool splits_sequences() const { return sequence_parallel && size() > 1; }
};

}  // namespace meg::nn
