#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/inspect/checkpoint_summary.h"
#include "libmeg/checkpoint/inspect/tensor_statistics.h"

namespace meg::checkpoint {

/// Statistics of one tensor of a checkpoint.
struct NamedStatistics {
  /// Of a whole checkpoint the canonical name of the parameter, with the layer's number in the
  /// model; else the tensor's name in its file.
  std::string name;
  std::string kind;       ///< "weight", "exp_avg" ...; empty unless whole.
  std::string file;       ///< Empty where whole.
  std::string canonical;  ///< The name with {} for the number; empty unless whole.
  std::optional<int64_t> layer;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  ///< Merged over the ranks where whole.
  TensorStatistics statistics;
};

/// Where the checkpoint is whole, its parameters and their state, read once and merged over the
/// ranks (so the numbers do not depend on its layout), and as it lies in the files the state of
/// optimizers that cannot be told apart by parameter; else the tensors of every file. wanted: by
/// name, and by the name that the file has for it; all where empty.
Result<std::vector<NamedStatistics>> checkpoint_statistics(
    const CheckpointSummary& summary, const std::function<bool(std::string_view)>& wanted = {},
    const ProgressCallback& progress = {});

}  // namespace meg::checkpoint
