#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/training/training_state.h"

namespace meg::checkpoint {

/// A torch file of the trainer in the making: its tree, and what its storages will hold.
class TrainingTree {
 public:
  using Entry = std::pair<std::string_view, PickleId>;

  TorchFileContent& content() { return content_; }

  const TorchFileContent& content() const { return content_; }

  PickleGraph& graph() { return content_.graph(); }

  /// A string; the same node for the same text, as Python's interned keys.
  PickleId text(std::string_view text);

  PickleId field(const megatron::FieldValue& value);

  /// A plain dict.
  PickleId dict(std::initializer_list<Entry> entries);

  PickleId dict(const StateFields& fields);

  PickleId arg(const ArgValue& value);

  /// argparse.Namespace
  PickleId args(const TrainingArgs& args);

  /// A tensor with a storage of its own that is written later, from the bytes handed over.
  PickleId tensor(const TrainingTensor& tensor);

  /// A small 1-D tensor whose bytes are known now.
  PickleId literal(DType dtype, std::span<const std::byte> bytes);

  /// The same of uint8.
  PickleId byte_tensor(std::span<const std::byte> bytes) { return literal(DType::kUint8, bytes); }

  /// Of each storage: what is written to it; empty where its content is known already.
  std::span<const std::span<const std::byte>> sources() const { return sources_; }

 private:
  TorchFileContent content_;
  std::map<std::string, PickleId, std::less<>> texts_;
  std::vector<std::span<const std::byte>> sources_;
};

}  // namespace meg::checkpoint
