#include "libmeg/checkpoint/container/torch_file/internal/torch_storages.h"

#include <optional>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/torch_file/internal/torch_names.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

class StorageFinder {
 public:
  StorageFinder(const PickleGraph& graph, const std::string& name) : graph_(graph), name_(name) {}

  Result<TorchStorages> run() {
    // All nodes rather than a walk from the root: every persistent id is checked, also one that
    // only a call of an unknown class holds, and neither sharing nor cycles matter.
    for (PickleId id = 0; id < graph_.size(); ++id) {
      if (graph_.node(id).kind != PickleKind::kPersistent) continue;
      MEG_ASSIGN_OR_RETURN(found_.windows[id], read_id(graph_.node(id).children[0]));
    }
    return std::move(found_);
  }

 private:
  Result<StorageWindow> read_id(PickleId id);
  Status read_class(PickleId id, const std::string& where, StorageWindow* window) const;
  Status add_storage(const TorchStorage& storage, const std::string& where, StorageWindow* window);
  Status narrow(PickleId metadata, const std::string& where, StorageWindow* window) const;

  const PickleGraph& graph_;
  const std::string& name_;
  TorchStorages found_;
  std::unordered_map<std::string, int> by_key_;
};

Result<StorageWindow> StorageFinder::read_id(PickleId id) {
  const PickleNode& tuple = graph_.node(id);
  const auto refuse = [&] {
    return make_error(StatusCode::kCorruption,
                      "{}: persistent id: expected ('storage', class, key, location, elements), "
                      "found {}",
                      name_, graph_.describe(id));
  };
  if (tuple.kind != PickleKind::kTuple || tuple.children.size() < 5 || tuple.children.size() > 6) {
    return refuse();
  }
  const auto key = graph_.as_string(tuple.children[2]);
  const auto location = graph_.as_string(tuple.children[3]);
  const auto elements = graph_.as_int(tuple.children[4]);
  if (graph_.as_string(tuple.children[0]) != "storage" || !key || !location || !elements ||
      *elements < 0) {
    return refuse();
  }
  const std::string where = fmt::format("{}: storage {}", name_, text::printable(*key));
  StorageWindow window;
  MEG_RETURN_IF_ERROR(read_class(tuple.children[1], where, &window));
  TorchStorage storage;
  storage.key = *key;
  storage.location = *location;
  storage.dtype = window.dtype;
  if (!checked_multiply(static_cast<uint64_t>(*elements),
                        static_cast<uint64_t>(dtype_size(window.dtype)), &storage.bytes) ||
      storage.bytes > INT64_MAX) {
    return make_error(StatusCode::kCorruption, "{}: {} elements of {} overflow 64 bits", where,
                      *elements, dtype_name(window.dtype));
  }
  MEG_RETURN_IF_ERROR(add_storage(storage, where, &window));
  if (tuple.children.size() == 6) {
    MEG_RETURN_IF_ERROR(narrow(tuple.children[5], where, &window));
  }
  return window;
}

Status StorageFinder::read_class(PickleId id, const std::string& where,
                                 StorageWindow* window) const {
  const PickleNode& node = graph_.node(id);
  if (node.kind != PickleKind::kGlobal) {
    return make_error(StatusCode::kCorruption, "{}: expected a class of storages, found {}", where,
                      graph_.describe(id));
  }
  // Its "elements" are bytes; the dtype comes with each tensor (_rebuild_tensor_v3).
  if (node.name == "UntypedStorage" && (node.text == "torch.storage" || node.text == "torch")) {
    window->is_untyped = true;
    return {};
  }
  const auto dtype = dtype_of_torch_storage(node.name);
  if (!dtype || node.text != "torch") {
    return make_error(StatusCode::kUnsupported, "{}: is a {}.{}", where, text::printable(node.text),
                      text::printable(node.name));
  }
  window->dtype = *dtype;
  return {};
}

Status StorageFinder::add_storage(const TorchStorage& storage, const std::string& where,
                                  StorageWindow* window) {
  const auto [known, is_new] =
      by_key_.emplace(storage.key, static_cast<int>(found_.storages.size()));
  window->storage = known->second;
  window->bytes = storage.bytes;
  if (is_new) {
    found_.storages.push_back(storage);
    found_.is_untyped.push_back(window->is_untyped);
    return {};
  }
  const TorchStorage& before = found_.storages[static_cast<size_t>(known->second)];
  // torch describes a storage again for each of its tensors. Descriptions that differ would let a
  // later one reach beyond what the first was checked for.
  if (before.bytes == storage.bytes && before.dtype == storage.dtype) return {};
  return make_error(StatusCode::kCorruption, "{}: named as {} bytes of {} and as {} bytes of {}",
                    where, before.bytes, dtype_name(before.dtype), storage.bytes,
                    dtype_name(storage.dtype));
}

/// metadata: None or (key, first element, elements), of a storage that is a part of another one.
Status StorageFinder::narrow(PickleId metadata, const std::string& where,
                             StorageWindow* window) const {
  const PickleNode& view = graph_.node(metadata);
  if (view.kind == PickleKind::kNone) return {};
  std::optional<int64_t> first;
  std::optional<int64_t> elements;
  if (view.kind == PickleKind::kTuple && view.children.size() == 3) {
    first = graph_.as_int(view.children[1]);
    elements = graph_.as_int(view.children[2]);
  }
  if (!first || !elements || *first < 0 || *elements < 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: its view: expected None or (key, offset, elements), found {}", where,
                      graph_.describe(metadata));
  }
  const auto item = static_cast<uint64_t>(dtype_size(window->dtype));
  const uint64_t held = window->bytes / item;
  const auto begin = static_cast<uint64_t>(*first);
  if (begin > held || static_cast<uint64_t>(*elements) > held - begin) {
    return make_error(StatusCode::kCorruption,
                      "{}: its view: {} elements from {} on are outside its {} elements", where,
                      *elements, begin, held);
  }
  window->first_byte = begin * item;
  window->bytes = static_cast<uint64_t>(*elements) * item;
  return {};
}

}  // namespace

Result<TorchStorages> find_torch_storages(const PickleGraph& graph, const std::string& name) {
  return StorageFinder(graph, name).run();
}

}  // namespace meg::checkpoint
