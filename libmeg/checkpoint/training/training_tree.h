#pragma once

#include <span>
#include <vector>

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

 private:
  std::vector<std::span<const std::byte>> sources_;
};

}  // namespace meg::checkpoint
