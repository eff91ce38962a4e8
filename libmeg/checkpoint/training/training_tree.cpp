#include "libmeg/checkpoint/training/training_tree.h"

#include <memory>
#include <utility>

#include "libmeg/checkpoint/state/tensor_source.h"

// Collects a file's values and, for each of its storages, the memory from which it will be written.
// `sources_` and the content's storages have the same indices.

namespace meg::checkpoint {

PickleId TrainingTree::field(const megatron::FieldValue& value) { return arg(arg_value(value)); }

PickleId TrainingTree::dict(const StateFields& fields) {
  std::vector<PickleId> pairs;
  for (const auto& [name, value] : fields) {
    pairs.push_back(text(name));
    pairs.push_back(field(value));
  }
  return graph().add_dict(std::move(pairs));
}

PickleId TrainingTree::tensor(const TrainingTensor& tensor) {
  const int storage = content().add_storage(tensor.dtype, tensor.bytes.size());
  sources_.push_back(tensor.bytes);
  return content().add_tensor(storage, tensor.shape);
}

PickleId TrainingTree::literal(DType dtype, std::span<const std::byte> bytes) {
  const int storage = content().add_storage(dtype, bytes.size(), {bytes.begin(), bytes.end()});
  // An entry for each storage keeps the numbers equal; an empty one says that the content itself
  // has the bytes.
  sources_.emplace_back();
  return content().add_tensor(storage, {static_cast<int64_t>(bytes.size()) / dtype_size(dtype)});
}

// The tree as if it had been read: with it a state in memory goes through the same code as files
// (write_dist_files).
Result<TorchFile> TrainingTree::compose(const std::string& name) const {
  std::vector<std::shared_ptr<const TensorSource>> sources;
  uint64_t bytes = 0;
  for (const TorchFileContent::Storage& storage : content().storages()) {
    if (storage.literal.empty()) {
      sources.push_back(memory_source(storage.dtype, sources_[sources.size()]));
    } else {
      // The source keeps the literal alive: `content()` may be gone before it is read.
      const auto copy = std::make_shared<const std::vector<std::byte>>(storage.literal);
      sources.push_back(memory_source(storage.dtype, *copy, copy));
    }
    bytes += storage.bytes;
  }
  return TorchFile::compose(name, content(), std::move(sources), bytes);
}

}  // namespace meg::checkpoint
