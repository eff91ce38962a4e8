#pragma once

#include <memory>

#include "libmeg/parallel/process_group.h"

namespace meg::nn {

/// The ranks that share the experts of each layer, this one included: in turn the tensor_size ones
/// that split the first experts, those that split the next ...
struct ExpertParallel {
  std::shared_ptr<parallel::ProcessGroup> group = parallel::single_rank_group();
  int tensor_size = 1;

  int size() const { return group->size(); }

  int rank() const { return group->rank(); }

  /// Ranks that have different experts.
  int model_size() const { return size() / tensor_size; }

  int model_rank() const { return rank() / tensor_size; }

  int tensor_rank() const { return rank() % tensor_size; }
};

}  // namespace meg::nn
