#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "libmeg/parallel/process_group.h"

namespace meg::nn {

/// Numbers of rows that go to each rank of a group, and come from each.
struct RowsOfRanks {
  std::vector<int64_t> sent, received;

  /// Those of the way back.
  RowsOfRanks reversed() const { return {.sent = received, .received = sent}; }
};

/// Sends consecutive rows of [n, h] to the ranks of a group and receives theirs, with the gradient,
/// which goes the other way. Errors of the group are thrown as StatusError.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/mappings.py: _AllToAll.
at::Tensor all_to_all(const at::Tensor& rows, const RowsOfRanks& counts,
                      const std::shared_ptr<parallel::ProcessGroup>& group);

}  // namespace meg::nn
