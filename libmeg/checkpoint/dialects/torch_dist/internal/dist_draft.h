#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"

namespace meg::checkpoint {

/// A composed rank file in the making: its tree, and for every storage of it what gives the bytes.
class DistDraft {
 public:
  TorchFileContent& content() { return content_; }

  PickleGraph& graph() { return content_.graph(); }

  /// A tensor of all elements of `source`. shape: its product is source->elements().
  PickleId add_tensor(std::shared_ptr<const TensorSource> source,
                      const std::vector<int64_t>& shape);

  /// The value of a whole torch file.
  Result<PickleId> copy(const std::shared_ptr<const TorchFile>& file);

  /// The value of an object; of a list of one value that value, as Megatron wraps it.
  Result<PickleId> copy(const DistFolder& folder, const DistObject& object);

  Result<TorchFile> finish(const std::string& name, uint64_t bytes) {
    return TorchFile::compose(name, content_, std::move(sources_), bytes);
  }

 private:
  /// sources: of the storages that `graph` names, in the order of their naming.
  Result<PickleId> copy(const PickleGraph& graph, PickleId root, const std::string& name,
                        const std::vector<std::shared_ptr<const TensorSource>>& sources);

  TorchFileContent content_;
  std::vector<std::shared_ptr<const TensorSource>> sources_;
};

}  // namespace meg::checkpoint
