#include <utility>

#include "libmeg/checkpoint/container/torch_file/internal/torch_names.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"

// The nodes that Python's pickler would write for tensors: classes and words that it memoizes are
// one node each, and what torch creates for each tensor is a separate node.

namespace meg::checkpoint {
namespace {

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    // torch counts an empty dimension as one here, and these numbers are in the file.
    strides[i - 1] = strides[i] * (shape[i] > 0 ? shape[i] : 1);
  }
  return strides;
}

}  // namespace

PickleId TorchFileContent::global(const std::string& module, const std::string& name) {
  const auto known = globals_.find(module + "." + name);
  if (known != globals_.end()) return known->second;
  const PickleId made = graph_.add_global(module, name);
  globals_.emplace(module + "." + name, made);
  return made;
}

PickleId TorchFileContent::add_storage_id(int storage) {
  // torch describes a storage again each time a tensor needs it; words, class and key are shared.
  const Storage& named = storages_[static_cast<size_t>(storage)];
  const std::string_view typed = torch_storage_class(named.dtype);
  const PickleId storage_class = typed.empty() ? global("torch.storage", "UntypedStorage")
                                               : global("torch", std::string(typed));
  if (!storage_word_) storage_word_ = graph_.add_string("storage");
  if (!location_) location_ = graph_.add_string("cpu");
  const uint64_t elements =
      typed.empty() ? named.bytes : named.bytes / static_cast<uint64_t>(dtype_size(named.dtype));
  const PickleId key = keys_[static_cast<size_t>(storage)];
  const PickleId count = graph_.add_int(static_cast<int64_t>(elements));
  return graph_.add_persistent(
      graph_.add_tuple({*storage_word_, storage_class, key, *location_, count}));
}

int TorchFileContent::add_storage(DType dtype, uint64_t bytes, std::vector<std::byte> literal) {
  const auto index = static_cast<int>(storages_.size());
  storages_.push_back({.dtype = dtype, .bytes = bytes, .literal = std::move(literal)});
  keys_.push_back(graph_.add_string(std::to_string(index)));
  storages_.back().persistent = add_storage_id(index);
  named_.push_back(false);
  return index;
}

PickleId TorchFileContent::add_tensor(int storage, const std::vector<int64_t>& shape,
                                      int64_t offset) {
  return add_tensor_view(storage, offset, shape, row_major_strides(shape));
}

PickleId TorchFileContent::add_tensor_view(int storage, int64_t offset,
                                           const std::vector<int64_t>& shape,
                                           const std::vector<int64_t>& strides) {
  const auto index = static_cast<size_t>(storage);
  const DType dtype = storages_[index].dtype;
  const bool is_typed = !torch_storage_class(dtype).empty();
  const PickleId named = named_[index] ? add_storage_id(storage) : storages_[index].persistent;
  named_[index] = true;
  const auto add_sizes = [&](const std::vector<int64_t>& sizes) {
    std::vector<PickleId> nodes;
    nodes.reserve(sizes.size());
    for (const int64_t size : sizes) nodes.push_back(graph_.add_int(size));
    return graph_.add_tuple(std::move(nodes));
  };
  // Python has one empty tuple and never remembers it; the hooks' OrderedDict is made for each
  // tensor.
  if (!empty_tuple_) empty_tuple_ = graph_.add_tuple({});
  const PickleId hooks =
      graph_.add_call(PickleCallForm::kReduce, global("collections", "OrderedDict"), *empty_tuple_);
  std::vector<PickleId> arguments = {
      named, graph_.add_int(offset), add_sizes(shape), add_sizes(strides), graph_.add_bool(false),
      hooks};
  if (!is_typed) arguments.push_back(global("torch", std::string(dtype_name(dtype))));
  const PickleId function =
      global("torch._utils", is_typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  return graph_.add_call(PickleCallForm::kReduce, function, graph_.add_tuple(std::move(arguments)));
}

}  // namespace meg::checkpoint
