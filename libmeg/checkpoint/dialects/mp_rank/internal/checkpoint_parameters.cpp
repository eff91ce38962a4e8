#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/container/torch_file/torch_value.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_reader.h"

// Makes parameters of the whole model from the entries that tensor ranks have. Nothing is read here
// but names, shapes and views: a parameter becomes a list of pieces, each a box of the whole tensor
// and the view of a file that has its elements.

namespace meg::checkpoint {

Status CheckpointReader::add_chunk(const Chunk& chunk) {
  for (size_t e = 0; e < chunk.by_rank[0].size(); ++e) {
    // align_ranks() has brought all ranks into the order of the first one, so the same number is
    // the same entry.
    const model::ParameterMatch& match = chunk.by_rank[0][e].match;
    if (match.is_extra_state) {
      add_extra_state(chunk, e);
      continue;
    }
    LogicalParameter parameter;
    MEG_RETURN_IF_ERROR(add_parameter(chunk, e, &parameter));
    MEG_RETURN_IF_ERROR(add_state(chunk, e, &parameter));
    if (is_tied_copy(match)) {
      state_->tied_copy = std::move(parameter);
    } else {
      state_->parameters.push_back(std::move(parameter));
    }
  }
  return Status();
}

/// Adds what tensor rank `rank` of a stage holds of a parameter.
void CheckpointReader::add_shard(const LogicalParameter& parameter, int64_t tensor_size,
                                 int64_t stage, size_t rank, const TensorView& view,
                                 LogicalTensor* tensor) const {
  const model::ShardAxes& axes = parameter.axes;
  const RankFile& file = state_->files[file_at(stage, static_cast<int64_t>(rank))];
  Piece piece{
      torch_source(file.file, view),
      Box::shard(axes.sizes, axes.partition_axis, file.tensor_rank % tensor_size, tensor_size)};
  if (axes.partition_axis < 0) {
    // What is not cut lies on every tensor rank: the first one's is the tensor, the others' are
    // replicas that verify compares.
    (rank == 0 ? tensor->pieces : tensor->replicas).push_back(std::move(piece));
    return;
  }
  // Empty means that the axes are in memory in the listed order.
  const bool is_natural = std::is_sorted(axes.memory_order.begin(), axes.memory_order.end());
  if (!is_natural) piece.memory_order = axes.memory_order;
  tensor->pieces.push_back(std::move(piece));
}

Status CheckpointReader::add_parameter(const Chunk& chunk, size_t entry,
                                       LogicalParameter* parameter) const {
  const RankEntry& first = chunk.by_rank[0][entry];
  const model::ParameterMatch& match = first.match;
  parameter->canonical = match.canonical;
  parameter->spelling = match.spelling;
  if (match.layer.has_value()) parameter->layer = chunk.first_layer + *match.layer;
  parameter->name = match.layer.has_value() ? model::with_layer(match.canonical, *parameter->layer)
                                            : match.canonical;
  parameter->partition = match.partition;
  parameter->placement = match.placement;
  parameter->is_buffer = match.is_buffer;
  parameter->stage = chunk.stage;
  parameter->chunk = chunk.chunk;
  const int64_t tensor_size = tensor_size_of(match);
  Result<model::ShardAxes> axes = model::shard_axes(match.partition, first.tensor->shape,
                                                    tensor_size, state_->config, state_->version);
  if (!axes.has_value()) {
    return axes.error().with_prefix(
        fmt::format("{}: model: {}", path(chunk.stage, 0), first.flat_name));
  }
  parameter->axes = *std::move(axes);
  // Shapes could not be compared before: only now is it known how the parameter is cut.
  const RankShapes& shapes = is_part_ && match.expert.has_value() ? expert_shapes_ : shapes_;
  const std::optional<std::vector<int64_t>> expected = shapes.expected(match, first.tensor->shape);
  if (expected.has_value() && *expected != first.tensor->shape) {
    return make_error(StatusCode::kCorruption, "{}: model: {}: expected shape {} by args, found {}",
                      path(chunk.stage, 0), first.flat_name, shape_text(*expected),
                      shape_text(first.tensor->shape));
  }
  parameter->shape = model::merged_shape(match.partition, first.tensor->shape, tensor_size);
  LogicalTensor weight;
  weight.kind = "weight";
  weight.dtype = first.tensor->dtype;
  for (size_t t = 0; t < chunk.by_rank.size(); ++t) {
    add_shard(*parameter, tensor_size, chunk.stage, t, *chunk.by_rank[t][entry].tensor, &weight);
  }
  parameter->tensors.push_back(std::move(weight));
  return Status();
}

Status CheckpointReader::add_state(const Chunk& chunk, size_t entry,
                                   LogicalParameter* parameter) const {
  if (optimizers_.empty() || parameter->is_buffer ||
      state_->optimizer.form == OptimizerForm::kDistributed ||
      // With the distributed form the states have come as a plain optimizer already, or they are
      // left out.
      state_->optimizer.form == OptimizerForm::kNone) {
    return Status();
  }
  const size_t first_file = file_at(chunk.stage, 0);
  const auto index = static_cast<size_t>(chunk.state_index[entry]);
  const RankState& first = optimizers_[first_file].states[index];
  parameter->group = first.group;
  for (const auto& [key, node] : first.other) {
    parameter->other_state.emplace_back(
        // What is kept as it is, such as steps, is the first tensor rank's; the others' must be the
        // same and are compared by verify.
        key, std::make_shared<TorchValue>(state_->files[first_file].file, node));
  }
  for (size_t k = 0; k < first.tensors.size(); ++k) {
    LogicalTensor tensor;
    tensor.kind = first.tensors[k].first;
    tensor.dtype = first.tensors[k].second.dtype;
    for (size_t t = 0; t < chunk.by_rank.size(); ++t) {
      const RankState& rank = optimizers_[first_file + t].states[index];
      if (rank.tensors.size() != first.tensors.size() || rank.tensors[k].first != tensor.kind ||
          rank.tensors[k].second.dtype != tensor.dtype) {
        return make_error(StatusCode::kCorruption,
                          "{}: optimizer: {}: expected {} in {} as on tensor rank 0",
                          state_->files[first_file + t].file->path(), parameter->name, tensor.kind,
                          dtype_name(tensor.dtype));
      }
      add_shard(*parameter, tensor_size_of(chunk.by_rank[0][entry].match), chunk.stage, t,
                rank.tensors[k].second, &tensor);
    }
    parameter->tensors.push_back(std::move(tensor));
  }
  return Status();
}

void CheckpointReader::add_extra_state(const Chunk& chunk, size_t entry) {
  const model::ParameterMatch& match = chunk.by_rank[0][entry].match;
  ExtraState extra;
  extra.spelling = match.spelling;
  extra.stage = chunk.stage;
  extra.chunk = chunk.chunk;
  if (match.layer.has_value()) extra.layer = chunk.first_layer + *match.layer;
  for (const std::vector<RankEntry>& rank : chunk.by_rank) extra.nodes.push_back(rank[entry].node);
  state_->extra_states.push_back(std::move(extra));
}

}  // namespace meg::checkpoint
