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

/// Builds a composed rank file: its tree, and for each of its storages the source of the bytes.
class RankDraft {
 public:
  TorchFileContent& content() { return content_; }

  PickleGraph& graph() { return content_.graph(); }

  /// Adds a tensor of all elements of `source`. shape: its product must be source->elements().
  PickleId add_tensor(std::shared_ptr<const TensorSource> source,
                      const std::vector<int64_t>& shape);

  /// Adds a storage of all elements of `source`, for tensors that are views of it; returns its
  /// number.
  int add_storage(std::shared_ptr<const TensorSource> source);

  /// Adds the storages of a torch file, in their order; returns the number of the first.
  int add_storages(const std::shared_ptr<const TorchFile>& file);

  /// Copies the value of a whole torch file.
  Result<PickleId> copy(const std::shared_ptr<const TorchFile>& file);

  /// Copies a value from another graph. sources: one for each storage that `graph` names, in the
  /// order in which they are first named. name: starts errors.
  Result<PickleId> copy(const PickleGraph& graph, PickleId root, const std::string& name,
                        const std::vector<std::shared_ptr<const TensorSource>>& sources);

  /// A new dict with all entries of `dict` except those of some keys.
  PickleId without(PickleId dict, std::initializer_list<std::string_view> keys);

  /// The finished file; nothing may be added afterwards.
  Result<TorchFile> finish(const std::string& name, uint64_t bytes) {
    return TorchFile::compose(name, content_, std::move(sources_), bytes);
  }

 private:
  TorchFileContent content_;
  std::vector<std::shared_ptr<const TensorSource>> sources_;
};

}  // namespace meg::checkpoint
