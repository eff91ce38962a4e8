#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// All elements of a file's storage, in their order.
TensorView view_of_storage(const TorchStorage& storage, int index);

/// A composed rank file in the making: its tree, and for every storage of it what gives the bytes.
class RankDraft {
 public:
  TorchFileContent& content() { return content_; }

  PickleGraph& graph() { return content_.graph(); }

  /// A tensor of all elements of `source`. shape: its product is source->elements().
  PickleId add_tensor(std::shared_ptr<const TensorSource> source,
                      const std::vector<int64_t>& shape);

  /// A storage of all elements of `source`, for tensors that are views of it; its number.
  int add_storage(std::shared_ptr<const TensorSource> source);

  /// The storages of a torch file, in their order; the number of the first.
  int add_storages(const std::shared_ptr<const TorchFile>& file);

  /// The value of a whole torch file.
  Result<PickleId> copy(const std::shared_ptr<const TorchFile>& file);

  /// A value of another graph. sources: of the storages that `graph` names, in the order of their
  /// naming; name: starts errors.
  Result<PickleId> copy(const PickleGraph& graph, PickleId root, const std::string& name,
                        const std::vector<std::shared_ptr<const TensorSource>>& sources);

  /// A dict of the draft without some of its keys, as a new one.
  PickleId without(PickleId dict, std::initializer_list<std::string_view> keys);

  /// The file; nothing is added any more.
  Result<TorchFile> finish(const std::string& name, uint64_t bytes) {
    return TorchFile::compose(name, content_, std::move(sources_), bytes);
  }

 private:
  TorchFileContent content_;
  std::vector<std::shared_ptr<const TensorSource>> sources_;
};

}  // namespace meg::checkpoint
