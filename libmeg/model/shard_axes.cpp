#include "libmeg/model/shard_axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meg::model {
namespace {

/// The product of sizes; nullopt where one is negative or it does not fit 64 bits (that of the
/// other sizes, where one is 0).
std::optional<int64_t> product(std::span<const int64_t> sizes) {
  int64_t result = 1;
  bool is_empty = false;
  for (const int64_t size : sizes) {
    is_empty |= size == 0;
    if (size < 0 || (size > 0 && __builtin_mul_overflow(result, size, &result)))
      return std::nullopt;
  }
  return is_empty ? 0 : result;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Which dimension tensor parallelism cuts; -1: none.
int cut_dimension(Partition partition) {
  if (partition == Partition::kReplicated) return -1;
  return partition == Partition::kColumns ? 1 : 0;
}

ShardAxes in_order(std::vector<int64_t> sizes, int partition_axis) {
  ShardAxes axes;
  axes.memory_order.resize(sizes.size());
  std::iota(axes.memory_order.begin(), axes.memory_order.end(), 0);
  axes.sizes = std::move(sizes);
  axes.partition_axis = partition_axis;
  return axes;
}

/// sizes, and the dimensions of the merged shape from `from` on as one more axis.
std::vector<int64_t> with_rest(std::vector<int64_t> sizes, const std::vector<int64_t>& merged,
                               size_t from = 1) {
  const std::span<const int64_t> rest = std::span(merged).subspan(from);
  if (!rest.empty()) sizes.push_back(*product(rest));
  return sizes;
}

Status rows_error(std::string_view what, int64_t expected, int64_t found) {
  return make_error(StatusCode::kCorruption, "expected {} rows ({}), found {}", expected, what,
                    found);
}

Result<ShardAxes> qkv_axes(const std::vector<int64_t>& merged, int64_t ranks,
                           const GptConfig& config, double version) {
  const int64_t heads = config.num_attention_heads;
  const int64_t groups = config.num_query_groups;
  const int64_t head_size = config.kv_channels;
  if (!config.divides_query_groups(ranks)) {
    return make_error(StatusCode::kUnsupported,
                      "{} query groups over {} tensor-parallel ranks: expected a number of ranks "
                      "that divides them or is a multiple of them",
                      groups, ranks);
  }
  if (merged[0] != config.qkv_rows()) {
    return rows_error(fmt::format("({} heads + 2 * {} query groups) * {} over {} ranks", heads,
                                  groups, head_size, ranks),
                      config.qkv_rows() / ranks, merged[0] / ranks);
  }
  // Group after group: ranks hold equal parts, be they several groups or a part of one.
  if (version >= 2) return in_order(with_rest({merged[0]}, merged), 0);
  if (groups != heads) {
    return make_error(StatusCode::kCorruption,
                      "checkpoint_version {} has no query groups: expected {}, found {}", version,
                      heads, groups);
  }
  // Before version 2 a shard's rows lay in another order than today's (head, then q, k, v):
  // Megatron permutes them when it loads such a checkpoint, here memory_order says it.
  ShardAxes axes = in_order(with_rest({heads, 3, head_size}, merged), 0);
  if (version == 0) {
    std::swap(axes.memory_order[0], axes.memory_order[1]);
  } else if (version == 1) {
    std::swap(axes.memory_order[1], axes.memory_order[2]);
  } else {
    return make_error(StatusCode::kUnsupported,
                      "checkpoint_version: expected 0, 1.0 or 2.0 and above, found {}", version);
  }
  return axes;
}

Result<ShardAxes> axes_of(Partition partition, const std::vector<int64_t>& merged, int64_t ranks,
                          const GptConfig& config, double version) {
  switch (partition) {
    case Partition::kReplicated:
      // Nothing is cut, so its dimensions do not matter: one axis copies in one run.
      return in_order({*product(merged)}, -1);
    case Partition::kColumns:
      return in_order(with_rest({merged[0], merged[1]}, merged, 2), 1);
    case Partition::kQkv:
      return qkv_axes(merged, ranks, config, version);
    case Partition::kGated:
      if (!config.gated_linear_unit) break;
      // Each rank holds its part of the gate, then its part of what is gated; merged by
      // concatenation the halves of the ranks would alternate.
      if (merged[0] / ranks % 2 != 0) {
        return make_error(StatusCode::kCorruption,
                          "expected an even number of rows (gate and up), found {}",
                          merged[0] / ranks);
      }
      return in_order(with_rest({2, merged[0] / 2}, merged), 1);
    case Partition::kVocabulary:
    case Partition::kRows:
      break;
  }
  return in_order(with_rest({merged[0]}, merged), 0);
}

}  // namespace

Result<ShardAxes> shard_axes(Partition partition, const std::vector<int64_t>& shard_shape,
                             int64_t tensor_model_parallel_size, const GptConfig& config,
                             double checkpoint_version) {
  const int64_t ranks = tensor_model_parallel_size;
  if (ranks < 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "tensor-model-parallel-size: expected at least 1, found {}", ranks);
  }
  const int cut = cut_dimension(partition);
  if (cut >= static_cast<int>(shard_shape.size())) {
    return make_error(StatusCode::kCorruption, "expected at least {} dimensions, found shape {}",
                      cut + 1, shape_text(shard_shape));
  }
  std::vector<int64_t> merged = shard_shape;
  const bool fits = cut < 0 || !__builtin_mul_overflow(merged[static_cast<size_t>(cut)], ranks,
                                                       &merged[static_cast<size_t>(cut)]);
  if (!fits || !product(merged)) {
    return make_error(StatusCode::kCorruption,
                      "shape {} over {} ranks: its elements cannot be counted in 64 bits",
                      shape_text(shard_shape), ranks);
  }
  return axes_of(partition, merged, ranks, config, checkpoint_version);
}

std::vector<int64_t> merged_shape(Partition partition, std::vector<int64_t> shard_shape,
                                  int64_t tensor_model_parallel_size) {
  const int cut = cut_dimension(partition);
  if (cut < 0 || cut >= static_cast<int>(shard_shape.size())) return shard_shape;
  int64_t& size = shard_shape[static_cast<size_t>(cut)];
  if (__builtin_mul_overflow(size, tensor_model_parallel_size, &size)) {
    size = std::numeric_limits<int64_t>::max();
  }
  return shard_shape;
}

Result<std::vector<int64_t>> shard_shape(Partition partition, std::vector<int64_t> merged_shape,
                                         int64_t tensor_model_parallel_size) {
  const int cut = cut_dimension(partition);
  if (cut < 0) return merged_shape;
  if (cut >= static_cast<int>(merged_shape.size()) || tensor_model_parallel_size < 1 ||
      merged_shape[static_cast<size_t>(cut)] % tensor_model_parallel_size != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "shape {}: expected a dimension {} that {} ranks divide evenly",
                      shape_text(merged_shape), cut, tensor_model_parallel_size);
  }
  merged_shape[static_cast<size_t>(cut)] /= tensor_model_parallel_size;
  return merged_shape;
}

}  // namespace meg::model
