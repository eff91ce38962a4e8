#pragma once

#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/rank_tree.h"
#include "libmeg/checkpoint/training/training_state.h"

namespace meg::checkpoint {

/// Builds a torch file of the trainer: its tree and the contents of its storages.
class TrainingTree : public RankTree {
 public:
  using RankTree::dict;

  PickleId field(const megatron::FieldValue& value);

  PickleId dict(const StateFields& fields);

  /// A tensor with a storage of its own, which is written later from the bytes passed here.
  PickleId tensor(const TrainingTensor& tensor);

  /// A small 1-D tensor whose bytes are known now.
  PickleId literal(DType dtype, std::span<const std::byte> bytes);

  /// The same for uint8.
  PickleId byte_tensor(std::span<const std::byte> bytes) { return literal(DType::kUint8, bytes); }

  /// Returns the bytes to be written to each storage; empty if its content is already known.
  std::span<const std::span<const std::byte>> sources() const { return sources_; }

  /// The result of writing this to a file and opening it, without a file. name: for messages. The
  /// result reads the bytes passed to tensor(), which must outlive it.
  Result<TorchFile> compose(const std::string& name) const;

 private:
  std::vector<std::span<const std::byte>> sources_;
};

}  // namespace meg::checkpoint
