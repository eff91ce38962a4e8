#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_draft.h"

#include <utility>

#include "libmeg/checkpoint/container/torch_file/internal/torch_storages.h"
#include "libmeg/checkpoint/container/torch_file/torch_source.h"

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

TensorView view_of_storage(const TorchStorage& storage, int index) {
  const auto elements =
      static_cast<int64_t>(storage.bytes / static_cast<uint64_t>(dtype_size(storage.dtype)));
  return {
      .storage = index, .dtype = storage.dtype, .offset = 0, .shape = {elements}, .strides = {1}};
}

}  // namespace

PickleId DistDraft::add_tensor(Source source, const std::vector<int64_t>& shape) {
  const int storage = content_.add_storage(source->dtype(), static_cast<uint64_t>(source->bytes()));
  sources_.push_back(std::move(source));
  return content_.add_tensor(storage, shape);
}

Result<PickleId> DistDraft::copy(const PickleGraph& from, PickleId root, const std::string& name,
                                 const std::vector<Source>& sources) {
  MEG_ASSIGN_OR_RETURN(const TorchStorages named, find_torch_storages(from, name));
  PickleCopier copier(from, graph());
  std::vector<PickleId> ids;
  for (const Source& source : sources) {
    const int storage =
        content_.add_storage(source->dtype(), static_cast<uint64_t>(source->bytes()));
    sources_.push_back(source);
    ids.push_back(content_.storages()[static_cast<size_t>(storage)].persistent);
  }
  for (const auto& [id, window] : named.windows) {
    copier.replace(id, ids[static_cast<size_t>(window.storage)]);
  }
  return copier.copy(root);
}

Result<PickleId> DistDraft::copy(const std::shared_ptr<const TorchFile>& file) {
  std::vector<Source> sources;
  for (const TorchStorage& storage : file->storages()) {
    sources.push_back(
        torch_source(file, view_of_storage(storage, static_cast<int>(sources.size()))));
  }
  return copy(file->graph(), file->root(), file->path(), sources);
}

Result<PickleId> DistDraft::copy(const DistFolder& folder, const DistObject& object) {
  MEG_ASSIGN_OR_RETURN(const TorchFileParts parts, folder.read_value(object.blob, object.name));
  std::vector<Source> sources;
  for (const TorchStorage& storage : parts.tensors.storages) {
    sources.push_back(folder.view_source(
        parts, view_of_storage(storage, static_cast<int>(sources.size())), object));
  }
  const PickleNode& root = parts.graph.node(parts.root);
  const bool is_wrapped = root.kind == PickleKind::kList && root.children.size() == 1;
  return copy(parts.graph, is_wrapped ? root.children[0] : parts.root, object.name, sources);
}

}  // namespace meg::checkpoint
