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
  /// The canonical name of the parameter with the layer's number in the model, if the checkpoint is
  /// whole; otherwise the tensor's name in its file.
  std::string name;
  std::string kind;       ///< "weight", "exp_avg" ...; empty unless whole.
  std::string file;       ///< Empty if the checkpoint is whole.
  std::string canonical;  ///< The name with {} for the number; empty unless whole.
  std::optional<int64_t> layer;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  ///< Merged over the ranks if the checkpoint is whole.
  TensorStatistics statistics;
};

/// Statistics of a whole checkpoint's parameters and their state, each read once and merged over
/// the ranks, so that the numbers do not depend on the layout; optimizer state that cannot be
/// assigned to parameters is taken as it lies in the files. If the checkpoint is not whole,
/// statistics of the tensors of every file. wanted: names, canonical or as in the file; empty: all.
Result<std::vector<NamedStatistics>> checkpoint_statistics(
    const CheckpointSummary& summary, const std::function<bool(std::string_view)>& wanted = {},
    const ProgressCallback& progress = {});

}  // namespace meg::checkpoint
