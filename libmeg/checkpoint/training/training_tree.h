#pragma once

#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/rank_tree.h"
#include "libmeg/checkpoint/training/training_state.h"

namespace meg::checkpoint {

/// A torch file of the trainer in the making: its tree, and what its storages will hold.
class TrainingTree : public RankTree {
 public:
  using RankTree::dict;

  PickleId field(const megatron::FieldValue& value);

  PickleId dict(const StateFields& fields);

  /// A tensor with a storage of its own that is written later, from the bytes handed over.
  PickleId tensor(const TrainingTensor& tensor);

  /// A small 1-D tensor whose bytes are known now.
  PickleId literal(DType dtype, std::span<const std::byte> bytes);

  /// The same of uint8.
  PickleId byte_tensor(std::span<const std::byte> bytes) { return literal(DType::kUint8, bytes); }

  /// Of each storage: what is written to it; empty where its content is known already.
  std::span<const std::span<const std::byte>> sources() const { return sources_; }

  /// What would be read of the file that holds this, without a file. name: for messages. The
  /// result reads the bytes that were handed over, which outlive it.
  Result<TorchFile> compose(const std::string& name) const;

 private:
  std::vector<std::span<const std::byte>> sources_;
};

}  // namespace meg::checkpoint
