#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/convert/internal/target_layout.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

/// Collects the transfers of a plan: one for each logical tensor, with all of its targets, and one
/// for each storage that is carried over as it is.
class TransferBuilder {
 public:
  /// weight_dtype: what 16- and 32-bit float weights become; without it they stay.
  TransferBuilder(const TargetLayout& layout, std::optional<DType> weight_dtype)
      : layout_(layout), weight_dtype_(weight_dtype) {}

  /// The type that a tensor has in the target.
  DType target_dtype(const LogicalParameter& parameter, const LogicalTensor& tensor) const;

  /// A new sink that gets the part of `tensor` that a rank holds. The parameter outlives the call
  /// of take().
  int add_sink(const LogicalParameter& parameter, const LogicalTensor& tensor,
               const RankPlace& place);

  /// A new sink, which others fill in parts.
  int add_sink() { return sinks_++; }

  /// Lets the same part of `tensor` fill the bytes of a sink from `offset` on.
  void add_target(const LogicalParameter& parameter, const LogicalTensor& tensor,
                  const RankPlace& place, int sink, uint64_t offset);

  /// Zeros of float32 for the bytes of a sink from `offset` on.
  void add_zeros(int sink, uint64_t offset, int64_t elements);

  /// A new sink that gets a whole storage of a source file.
  int add_copy(const std::shared_ptr<const TorchFile>& source, int storage);

  std::vector<TensorTransfer> take() { return std::move(transfers_); }

 private:
  TensorTransfer start(const LogicalParameter& parameter, const LogicalTensor& tensor) const;

  const TargetLayout& layout_;
  std::optional<DType> weight_dtype_;
  std::vector<TensorTransfer> transfers_;
  std::unordered_map<const LogicalTensor*, size_t> of_tensor_;
  std::map<std::pair<const TorchFile*, int>, size_t> of_copy_;  // by source file and storage
  int sinks_ = 0;
};

}  // namespace meg::checkpoint
