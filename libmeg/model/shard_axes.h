#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_table.h"

namespace meg::model {

/// A parameter as logical axes, one of which tensor parallelism divides: rank t of n holds an equal
/// part of that axis and the whole of the others. Row-major order of these axes is the order of the
/// merged tensor, and of every shard at checkpoint version >= 2.
///
///   rows [r, c]       axes {r, c}            cut 0
///   columns [r, c]    axes {r, c}            cut 1
///   qkv [r, h]        axes {r, h}            cut 0 (r: each query group's rows of q, k and v)
///   gated [2f, h]     axes {2, f, h}         cut 1
///   replicated        axes {numel}           cut -1
struct ShardAxes {
  std::vector<int64_t>
      sizes;  ///< Sizes of the merged tensor (the vocabulary padded as in the source).
  int partition_axis = -1;  ///< Index into sizes; -1: replicated.
  /// Order of the axes in a source shard's memory, outermost first; {0, 1, ...} unless the
  /// checkpoint's version is below 2 (there qkv has axes {n, 3, d, ...} and is stored as
  /// [3, n, d, ...] at version 0, [n, d, 3, ...] at version 1.0).
  std::vector<int> memory_order;
};

/// The axes of a parameter from the shape of one shard.
/// shard_shape: as found on one rank, 1 to 4 dimensions. tensor_model_parallel_size: the source's.
/// checkpoint_version: Megatron's, 0 if absent. kCorruption if the shape does not fit the partition
/// and config (the message has the expected and found sizes).
Result<ShardAxes> shard_axes(Partition partition, const std::vector<int64_t>& shard_shape,
                             int64_t tensor_model_parallel_size, const GptConfig& config,
                             double checkpoint_version);

/// The shape of the merged tensor for a shard of this shape: the divided dimension times
/// tensor_model_parallel_size.
std::vector<int64_t> merged_shape(Partition partition, std::vector<int64_t> shard_shape,
                                  int64_t tensor_model_parallel_size);

/// The inverse: the shape of one of tensor_model_parallel_size shards.
/// kInvalidArgument if the dimension cannot be divided.
Result<std::vector<int64_t>> shard_shape(Partition partition, std::vector<int64_t> merged_shape,
                                         int64_t tensor_model_parallel_size);

}  // namespace meg::model
