#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"

#include <algorithm>
#include <span>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/internal/torch_storages.h"
#include "libmeg/checkpoint/container/torch_file/torch_source.h"

// Composes a file from parts of others: its tree is new, and its storages are sources that read the
// bytes where they are. Other formats are presented in this way as the rank files that Megatron
// would have written, so that one reader is enough for all of them.

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

/// What gives the bytes of each storage of a file.
std::vector<Source> sources_of(const std::shared_ptr<const TorchFile>& file) {
  std::vector<Source> sources;
  for (const TorchStorage& storage : file->storages()) {
    sources.push_back(
        torch_source(file, view_of_storage(storage, static_cast<int>(sources.size()))));
  }
  return sources;
}

}  // namespace

TensorView view_of_storage(const TorchStorage& storage, int index) {
  const auto elements =
      static_cast<int64_t>(storage.bytes / static_cast<uint64_t>(dtype_size(storage.dtype)));
  return {
      .storage = index, .dtype = storage.dtype, .offset = 0, .shape = {elements}, .strides = {1}};
}

PickleId RankDraft::add_tensor(Source source, const std::vector<int64_t>& shape) {
  return content_.add_tensor(add_storage(std::move(source)), shape);
}

int RankDraft::add_storage(Source source) {
  const int storage = content_.add_storage(source->dtype(), static_cast<uint64_t>(source->bytes()));
  sources_.push_back(std::move(source));
  return storage;
}

int RankDraft::add_storages(const std::shared_ptr<const TorchFile>& file) {
  const auto first = static_cast<int>(sources_.size());
  for (Source& source : sources_of(file)) add_storage(std::move(source));
  return first;
}

Result<PickleId> RankDraft::copy(const PickleGraph& from, PickleId root, const std::string& name,
                                 const std::vector<Source>& sources) {
  MEG_ASSIGN_OR_RETURN(const TorchStorages named, find_torch_storages(from, name));
  PickleCopier copier(from, graph());
  std::vector<PickleId> ids;
  // All storages first, then the tree: replace() makes the copier use the draft's storages in place
  // of the file's, so that tensors keep sharing them.
  for (const Source& source : sources) {
    const int storage = add_storage(source);
    ids.push_back(content_.storages()[static_cast<size_t>(storage)].persistent);
  }
  // A legacy file's tensor may name a window of another storage, which copies would lose.
  for (const auto& [id, window] : named.windows) {
    const uint64_t whole = named.storages[static_cast<size_t>(window.storage)].bytes;
    if (window.first_byte != 0 || window.bytes != whole) {
      return make_error(StatusCode::kUnsupported,
                        "{}: a tensor in a part of a storage, as saved by torch before 1.6", name);
    }
    copier.replace(id, ids[static_cast<size_t>(window.storage)]);
  }
  return copier.copy(root);
}

Result<PickleId> RankDraft::copy(const std::shared_ptr<const TorchFile>& file) {
  return copy(file->graph(), file->root(), file->path(), sources_of(file));
}

PickleId RankDraft::without(PickleId dict, std::initializer_list<std::string_view> keys) {
  std::vector<PickleId> pairs;
  const std::span<const PickleId> found = graph().pairs(dict);
  for (size_t i = 0; i + 1 < found.size(); i += 2) {
    const std::string_view key = graph().as_string(found[i]).value_or("");
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    pairs.insert(pairs.end(), {found[i], found[i + 1]});
  }
  return graph().add_dict(std::move(pairs));
}

}  // namespace meg::checkpoint
