#include "libmeg/checkpoint/convert/internal/target_file.h"

#include <optional>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_value.h"

namespace meg::checkpoint {
namespace {

/// The storage that a persistent id ("storage", class, key, location, elements) names.
std::optional<int> storage_named(const TorchFile& file, PickleId persistent) {
  constexpr size_t kKey = 2, kView = 5;
  const PickleGraph& graph = file.graph();
  const PickleNode& name = graph.node(graph.node(persistent).children.at(0));
  if (name.kind != PickleKind::kTuple || name.children.size() <= kKey) return std::nullopt;
  const bool is_view =
      name.children.size() > kView && graph.node(name.children[kView]).kind != PickleKind::kNone;
  const std::optional<std::string_view> key = graph.as_string(name.children[kKey]);
  if (is_view || !key.has_value()) return std::nullopt;
  for (size_t i = 0; i < file.storages().size(); ++i) {
    if (file.storages()[i].key == *key) return static_cast<int>(i);
  }
  return std::nullopt;
}

}  // namespace

/// One node a text: Python's pickler remembers interned strings, so keys are written once and
/// fetched afterwards.
PickleId TargetFile::text(std::string_view text) {
  auto found = texts_.find(text);
  if (found == texts_.end()) {
    found = texts_.emplace(std::string(text), graph().add_string(std::string(text))).first;
  }
  return found->second;
}

PickleId TargetFile::none() { return graph().add_none(); }

PickleId TargetFile::ordered_dict() {
  if (!ordered_dict_.has_value()) {
    ordered_dict_ = graph().add_global("collections", "OrderedDict");
  }
  return *ordered_dict_;
}

PickleId TargetFile::add_tensor(const LogicalParameter& parameter, const LogicalTensor& tensor,
                                const std::vector<int64_t>& shape) {
  const DType dtype = transfers_->target_dtype(parameter, tensor);
  uint64_t bytes = static_cast<uint64_t>(dtype_size(dtype));
  for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
  const int storage = content_.add_storage(dtype, bytes);
  set_sink(storage, transfers_->add_sink(parameter, tensor, place_));
  return content_.add_tensor(storage, shape);
}

void TargetFile::set_sink(int storage, int sink) {
  sinks_.resize(content_.storages().size(), -1);
  sinks_[static_cast<size_t>(storage)] = sink;
}

const TargetFile::SourceFile& TargetFile::source(int source_file) const {
  return checkpoint_.files()[static_cast<size_t>(source_file)].file;
}

TargetFile::Carrier& TargetFile::carrier(const SourceFile& file) {
  std::unique_ptr<Carrier>& found = carriers_[file.get()];
  if (found == nullptr) found = std::make_unique<Carrier>(file->graph(), graph());
  return *found;
}

void TargetFile::replace(int source_file, PickleId id, PickleId replacement) {
  Carrier& found = carrier(source(source_file));
  found.copier.replace(id, replacement);
  // Its storages must not be carried: nothing in this file would name them.
  found.visited.insert(id);
}

Result<PickleId> TargetFile::carry(int source_file, PickleId id) {
  return carry(source(source_file), id);
}

Result<PickleId> TargetFile::carry(const Opaque& value) {
  const auto* found = dynamic_cast<const TorchValue*>(&value);
  if (found != nullptr) return carry(found->file(), found->node());
  return make_error(StatusCode::kUnsupported, "{}: cannot carry {} over into a torch file",
                    value.origin(), value.describe(80));
}

Result<PickleId> TargetFile::carry(const SourceFile& file, PickleId id) {
  Carrier& found = carrier(file);
  MEG_RETURN_IF_ERROR(carry_storages(file, id, &found));
  return found.copier.copy(id);
}

/// Gives every storage that is named under `root` a copy in this file.
Status TargetFile::carry_storages(const SourceFile& file, PickleId root, Carrier* carrier) {
  const PickleGraph& graph = file->graph();
  std::vector<PickleId> open = {root};
  while (!open.empty()) {
    const PickleId id = open.back();
    open.pop_back();
    // This works across all calls for a file: shared values and cycles are walked once, and a
    // storage that two values name becomes one storage here too.
    if (!carrier->visited.insert(id).second) continue;
    const PickleNode& node = graph.node(id);
    if (node.kind == PickleKind::kPersistent) {
      const std::optional<int> storage = storage_named(*file, id);
      if (!storage.has_value()) {
        return make_error(StatusCode::kUnsupported,
                          "{}: cannot carry over {}: expected the name of a storage", file->path(),
                          graph.describe(id, 80));
      }
      const auto [copy, is_new] = carrier->storages.try_emplace(*storage, 0);
      if (is_new) {
        const TorchStorage& source = file->storages()[static_cast<size_t>(*storage)];
        const int target = content_.add_storage(source.dtype, source.bytes);
        set_sink(target, transfers_->add_copy(file, *storage));
        copy->second = content_.storages()[static_cast<size_t>(target)].persistent;
      }
      carrier->copier.replace(id, copy->second);
      continue;
    }
    open.insert(open.end(), node.children.begin(), node.children.end());
    if (node.kind == PickleKind::kCall) {
      const PickleCall& call = graph.call(id);
      for (const auto* more : {&call.items, &call.pairs, &call.states}) {
        open.insert(open.end(), more->begin(), more->end());
      }
    }
  }
  return Status();
}

Result<TransferTargetFile> TargetFile::finish(std::string path) {
  constexpr const char* kArchiveName = "model_optim_rng";
  TransferTargetFile file;
  file.path = std::move(path);
  file.content = std::move(content_);
  file.sinks = std::move(sinks_);
  file.sinks.resize(file.content.storages().size(), -1);
  MEG_ASSIGN_OR_RETURN(file.layout, lay_out(file.content, kArchiveName));
  return file;
}

}  // namespace meg::checkpoint
