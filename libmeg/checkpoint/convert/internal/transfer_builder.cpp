#include "libmeg/checkpoint/convert/internal/transfer_builder.h"

#include <fmt/format.h>

#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_source.h"

namespace meg::checkpoint {
namespace {

bool is_convertible(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32;
}

}  // namespace

DType TransferBuilder::target_dtype(const LogicalParameter& parameter,
                                    const LogicalTensor& tensor) const {
  const bool converts = weight_dtype_.has_value() && tensor.kind == "weight" &&
                        !parameter.is_buffer && is_convertible(tensor.dtype);
  return converts ? *weight_dtype_ : tensor.dtype;
}

TensorTransfer TransferBuilder::start(const LogicalParameter& parameter,
                                      const LogicalTensor& tensor) const {
  TensorTransfer transfer;
  transfer.name = fmt::format("{} {}", parameter.name, tensor.kind);
  transfer.target_dtype = target_dtype(parameter, tensor);
  // New padding rows get what training from them on needs: a weight like any other, and no
  // momentum.
  const bool is_moment = tensor.kind != "weight" && tensor.kind != "fp32_param";
  transfer.fill = is_moment ? PaddingFill::kZero : PaddingFill::kRepeatLastRow;
  transfer.axes = parameter.axes.sizes;
  transfer.source_extent = transfer.axes[0];
  // Only the vocabulary changes its height, which is its first axis.
  const int cut = parameter.axes.partition_axis;
  if (cut >= 0) transfer.axes[static_cast<size_t>(cut)] = layout_.cut_extent(parameter);
  transfer.sources = tensor.pieces;
  return transfer;
}

int TransferBuilder::add_sink(const LogicalParameter& parameter, const LogicalTensor& tensor,
                              const RankPlace& place) {
  const int sink = add_sink();
  add_target(parameter, tensor, place, sink, 0);
  return sink;
}

void TransferBuilder::add_zeros(int sink, uint64_t offset, int64_t elements) {
  TensorTransfer transfer;
  transfer.name = "padding";
  transfer.axes = {elements};
  transfer.targets.push_back(
      {.sink = sink, .box = Box::whole(transfer.axes), .range = {}, .offset = offset});
  transfers_.push_back(std::move(transfer));
}

void TransferBuilder::add_target(const LogicalParameter& parameter, const LogicalTensor& tensor,
                                 const RankPlace& place, int sink, uint64_t offset) {
  // One transfer a tensor with all of its targets, so that its source is read once for all ranks.
  const auto [found, is_new] = of_tensor_.try_emplace(&tensor, transfers_.size());
  if (is_new) transfers_.push_back(start(parameter, tensor));
  TensorTransfer& transfer = transfers_[found->second];
  // The axis is divided without a remainder, which was checked when the target was laid out.
  Box box = Box::shard(transfer.axes, parameter.axes.partition_axis,
                       is_of_expert(parameter) ? place.expert_tensor_rank : place.tensor_rank,
                       layout_.tensor_size(parameter));
  transfer.targets.push_back({.sink = sink, .box = std::move(box), .range = {}, .offset = offset});
}

int TransferBuilder::add_copy(const std::shared_ptr<const TorchFile>& source, int storage) {
  const auto [found, is_new] =
      of_copy_.try_emplace(std::pair(source.get(), storage), transfers_.size());
  if (is_new) {
    const TorchStorage& copied = source->storages()[static_cast<size_t>(storage)];
    const int64_t count = static_cast<int64_t>(copied.bytes) / dtype_size(copied.dtype);
    TensorTransfer transfer;
    transfer.name = "a value that is carried over";
    transfer.axes = {count};
    transfer.source_extent = count;
    transfer.target_dtype = copied.dtype;
    const TensorView view{
        .storage = storage, .dtype = copied.dtype, .offset = 0, .shape = {count}, .strides = {1}};
    transfer.sources.push_back({torch_source(source, view), Box::whole({count})});
    transfers_.push_back(std::move(transfer));
  }
  TensorTransfer& transfer = transfers_[found->second];
  transfer.targets.push_back({.sink = sinks_++, .box = Box::whole(transfer.axes)});
  return sinks_ - 1;
}

}  // namespace meg::checkpoint
