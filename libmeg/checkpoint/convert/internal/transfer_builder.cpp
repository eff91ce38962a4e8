#include "libmeg/checkpoint/convert/internal/transfer_builder.h"

#include <fmt/format.h>

namespace meg::checkpoint {
namespace {

bool is_convertible(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32;
}

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

}  // namespace

DType TransferBuilder::target_dtype(const LogicalTensor& tensor) const {
  const bool converts =
      weight_dtype_.has_value() && tensor.kind == "weight" && is_convertible(tensor.dtype);
  return converts ? *weight_dtype_ : tensor.dtype;
}

TensorTransfer TransferBuilder::start(const LogicalParameter& parameter,
                                      const LogicalTensor& tensor) const {
  TensorTransfer transfer;
  transfer.name = fmt::format("{} {}", parameter.name, tensor.kind);
  transfer.source_dtype = tensor.dtype;
  transfer.target_dtype = target_dtype(tensor);
  const bool is_moment = tensor.kind != "weight" && tensor.kind != "fp32_param";
  transfer.fill = is_moment ? PaddingFill::kZero : PaddingFill::kRepeatLastRow;
  const model::ShardAxes& axes = parameter.axes;
  if (axes.partition_axis < 0) {
    const int64_t count = product(parameter.shape);
    transfer.axes = {count};
    transfer.source_extent = count;
    transfer.sources.push_back({.file = tensor.shards[0].file,
                                .view = tensor.shards[0].view,
                                .begin = 0,
                                .end = count,
                                .memory_order = {}});
    return transfer;
  }
  transfer.axes = axes.sizes;
  transfer.cut_axis = axes.partition_axis;
  int64_t& extent = transfer.axes[static_cast<size_t>(axes.partition_axis)];
  transfer.source_extent = extent;
  extent = layout_.cut_extent(parameter);
  const auto shards = static_cast<int64_t>(tensor.shards.size());
  const int64_t length = transfer.source_extent / shards;
  for (int64_t t = 0; t < shards; ++t) {
    const SourceTensor& shard = tensor.shards[static_cast<size_t>(t)];
    transfer.sources.push_back({.file = shard.file,
                                .view = shard.view,
                                .begin = t * length,
                                .end = (t + 1) * length,
                                .memory_order = axes.memory_order});
  }
  return transfer;
}

void TransferBuilder::add_target(const LogicalParameter& parameter, const LogicalTensor& tensor,
                                 int64_t tensor_rank, int file, int storage) {
  const auto [found, is_new] = of_tensor_.try_emplace(&tensor, transfers_.size());
  if (is_new) transfers_.push_back(start(parameter, tensor));
  TensorTransfer& transfer = transfers_[found->second];
  TransferTarget target{.file = file, .storage = storage, .begin = 0, .end = 0};
  if (parameter.axes.partition_axis < 0) {
    target.end = transfer.source_extent;
  } else {
    const int64_t extent = transfer.axes[static_cast<size_t>(transfer.cut_axis)];
    const int64_t length = extent / layout_.tensor_model_parallel_size;
    target.begin = tensor_rank * length;
    target.end = target.begin + length;
  }
  transfer.targets.push_back(target);
}

void TransferBuilder::add_copy(int source_file, const TorchStorage& source, int source_storage,
                               int file, int storage) {
  const uint64_t key =
      (uint64_t{static_cast<uint32_t>(source_file)} << 32) | static_cast<uint32_t>(source_storage);
  const int64_t count = static_cast<int64_t>(source.bytes) / dtype_size(source.dtype);
  const auto [found, is_new] = of_copy_.try_emplace(key, transfers_.size());
  if (is_new) {
    TensorTransfer transfer;
    transfer.name = fmt::format("storage {} of rank file {}", source.key, source_file);
    transfer.axes = {count};
    transfer.source_extent = count;
    transfer.source_dtype = transfer.target_dtype = source.dtype;
    transfer.sources.push_back({.file = source_file,
                                .view = {.storage = source_storage,
                                         .dtype = source.dtype,
                                         .offset = 0,
                                         .shape = {count},
                                         .strides = {1}},
                                .begin = 0,
                                .end = count,
                                .memory_order = {}});
    transfers_.push_back(std::move(transfer));
  }
  transfers_[found->second].targets.push_back(
      {.file = file, .storage = storage, .begin = 0, .end = count});
}

}  // namespace meg::checkpoint
