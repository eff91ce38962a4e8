#include "libmeg/checkpoint/torch_tensors.h"

#include <unordered_set>

#include "libmeg/checkpoint/torch_names.h"
#include "libmeg/core/bytes.h"
#include "libmeg/core/printable.h"

namespace meg {
namespace {

/// Views may repeat elements (stride 0, overlapping windows), but not claim without end: work on
/// a tensor must be bounded by the file's size or by this many elements.
constexpr uint64_t kMaxRepeatedElements = uint64_t{1} << 26;

/// What a persistent id names: a storage, or a window of it in legacy files.
struct StorageWindow {
  int storage = 0;
  DType dtype = DType::kUint8;
  bool is_untyped = false;
  uint64_t first_byte = 0;
  uint64_t bytes = 0;
};

class Finder {
 public:
  Finder(const PickleGraph& graph, const std::string& name) : graph_(graph), name_(name) {}

  Result<TorchTensors> run();

 private:
  Status read_storage_id(PickleId persistent);
  Status add_storage(const TorchStorage& storage, bool is_untyped, StorageWindow* window);
  Status narrow_window(PickleId metadata, StorageWindow* window) const;
  Status read_call(PickleId id);
  Result<bool> read_wrapper(PickleId id, const std::string& function,
                            std::span<const PickleId> arguments);
  Result<TensorView> read_rebuild(const std::string& function, std::span<const PickleId> arguments);
  Result<std::vector<int64_t>> read_sizes(PickleId id, std::string_view what) const;
  Result<DType> read_dtype(PickleId id) const;
  Status check_metadata(PickleId id) const;
  void type_untyped_storages();

  template <class... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(StatusCode::kCorruption, "{}: {}", name_,
                      fmt::vformat(format, fmt::make_format_args(args...)));
  }

  const PickleGraph& graph_;
  const std::string& name_;
  TorchTensors found_;
  std::unordered_map<std::string, int> by_key_;
  std::vector<bool> untyped_;  // of each storage
  std::unordered_map<PickleId, StorageWindow> windows_;
  std::unordered_set<PickleId> wrapped_;
};

bool is_plain_rebuild(const std::string& function) {
  return function == "_rebuild_tensor" || function == "_rebuild_tensor_v2" ||
         function == "_rebuild_tensor_v3";
}

Result<TorchTensors> Finder::run() {
  const auto size = static_cast<PickleId>(graph_.size());
  for (PickleId id = 0; id < size; ++id) {
    if (graph_.node(id).kind == PickleKind::kPersistent) MEG_RETURN_IF_ERROR(read_storage_id(id));
  }
  // What a call is given stands before it.
  for (PickleId id = 0; id < size; ++id) {
    if (graph_.node(id).kind == PickleKind::kCall) MEG_RETURN_IF_ERROR(read_call(id));
  }
  std::erase_if(found_.nodes, [&](PickleId id) { return wrapped_.contains(id); });
  type_untyped_storages();
  return std::move(found_);
}

Status Finder::read_storage_id(PickleId persistent) {
  const PickleNode& id = graph_.node(graph_.node(persistent).children[0]);
  const size_t count = id.children.size();
  if (id.kind != PickleKind::kTuple || count < 5 || count > 6 ||
      graph_.as_string(id.children[0]) != "storage") {
    return refuse("persistent id: expected ('storage', class, key, location, elements), found {}",
                  graph_.describe(graph_.node(persistent).children[0]));
  }
  const PickleNode& storage_class = graph_.node(id.children[1]);
  const auto key = graph_.as_string(id.children[2]);
  const auto location = graph_.as_string(id.children[3]);
  const auto elements = graph_.as_int(id.children[4]);
  if (storage_class.kind != PickleKind::kGlobal || !key || !location || !elements ||
      *elements < 0) {
    return refuse("persistent id: expected ('storage', class, key, location, elements), found {}",
                  graph_.describe(graph_.node(persistent).children[0]));
  }
  StorageWindow window;
  window.is_untyped = storage_class.name == "UntypedStorage" &&
                      (storage_class.text == "torch.storage" || storage_class.text == "torch");
  const auto dtype = dtype_of_torch_storage(storage_class.name);
  if (dtype && storage_class.text == "torch") {
    window.dtype = *dtype;
  } else if (!window.is_untyped) {
    return make_error(StatusCode::kUnsupported, "{}: storage {} is a {}.{}", name_, printable(*key),
                      printable(storage_class.text), printable(storage_class.name));
  }
  TorchStorage storage;
  storage.key = *key;
  storage.location = *location;
  storage.dtype = window.dtype;
  if (!checked_multiply(static_cast<uint64_t>(*elements),
                        static_cast<uint64_t>(dtype_size(window.dtype)), &storage.bytes) ||
      storage.bytes > INT64_MAX) {
    return refuse("storage {}: {} elements of {} overflow 64 bits", printable(*key), *elements,
                  dtype_name(window.dtype));
  }
  MEG_RETURN_IF_ERROR(add_storage(storage, window.is_untyped, &window));
  if (count == 6) MEG_RETURN_IF_ERROR(narrow_window(id.children[5], &window));
  windows_[persistent] = window;
  return {};
}

Status Finder::add_storage(const TorchStorage& storage, bool is_untyped, StorageWindow* window) {
  const auto [known, is_new] =
      by_key_.emplace(storage.key, static_cast<int>(found_.storages.size()));
  window->storage = known->second;
  if (is_new) {
    found_.storages.push_back(storage);
    untyped_.push_back(is_untyped);
  } else {
    const TorchStorage& before = found_.storages[static_cast<size_t>(window->storage)];
    if (before.bytes != storage.bytes || before.dtype != storage.dtype) {
      return refuse("storage {}: named as {} bytes of {} and as {} bytes of {}",
                    printable(storage.key), before.bytes, dtype_name(before.dtype), storage.bytes,
                    dtype_name(storage.dtype));
    }
  }
  window->bytes = storage.bytes;
  return {};
}

/// metadata: None or (key, first element, elements) of a legacy file's storage that is a part of
/// another one.
Status Finder::narrow_window(PickleId metadata, StorageWindow* window) const {
  const PickleNode& view = graph_.node(metadata);
  if (view.kind == PickleKind::kNone) return {};
  const std::string& key = found_.storages[static_cast<size_t>(window->storage)].key;
  std::optional<int64_t> first, elements;
  if (view.kind == PickleKind::kTuple && view.children.size() == 3) {
    first = graph_.as_int(view.children[1]);
    elements = graph_.as_int(view.children[2]);
  }
  if (!first || !elements || *first < 0 || *elements < 0) {
    return refuse("storage {}: expected None or (key, offset, elements) for its view, found {}",
                  printable(key), graph_.describe(metadata));
  }
  const auto item = static_cast<uint64_t>(dtype_size(window->dtype));
  const uint64_t held = window->bytes / item;
  if (static_cast<uint64_t>(*first) > held ||
      static_cast<uint64_t>(*elements) > held - static_cast<uint64_t>(*first)) {
    return refuse("storage {}: a view of {} elements from {} on lies outside its {} elements",
                  printable(key), *elements, *first, held);
  }
  window->first_byte = static_cast<uint64_t>(*first) * item;
  window->bytes = static_cast<uint64_t>(*elements) * item;
  return {};
}

Status Finder::read_call(PickleId id) {
  const PickleNode& node = graph_.node(id);
  const PickleNode& callee = graph_.node(node.children[0]);
  if (callee.kind != PickleKind::kGlobal) return {};
  const bool is_rebuild = callee.text == "torch._utils" && is_plain_rebuild(callee.name);
  const bool is_wrapper =
      (callee.text == "torch._utils" &&
       (callee.name == "_rebuild_parameter" || callee.name == "_rebuild_parameter_with_state")) ||
      (callee.text == "torch._tensor" &&
       (callee.name == "_rebuild_from_type_v2" || callee.name == "_rebuild_from_type"));
  if (!is_rebuild && !is_wrapper) return {};
  const PickleNode& arguments = graph_.node(node.children[1]);
  const PickleCall& call = graph_.call(id);
  if (call.form != PickleCallForm::kReduce || arguments.kind != PickleKind::kTuple) {
    return refuse("{}: expected a call with a tuple of arguments", callee.name);
  }
  if (!call.items.empty() || !call.pairs.empty() || !call.states.empty()) {
    return make_error(StatusCode::kUnsupported, "{}: {}: a tensor that is changed once made", name_,
                      callee.name);
  }
  if (is_wrapper) {
    MEG_ASSIGN_OR_RETURN(const bool is_tensor, read_wrapper(id, callee.name, arguments.children));
    if (is_tensor) found_.nodes.push_back(id);
    return {};
  }
  MEG_ASSIGN_OR_RETURN(found_.views[id], read_rebuild(callee.name, arguments.children));
  found_.nodes.push_back(id);
  return {};
}

/// Returns whether the wrapper holds a tensor that is known here.
Result<bool> Finder::read_wrapper(PickleId id, const std::string& function,
                                  std::span<const PickleId> arguments) {
  if (function.starts_with("_rebuild_parameter")) {
    // (tensor, requires_grad, hooks[, state])
    const size_t expected = function == "_rebuild_parameter" ? 3 : 4;
    if (arguments.size() != expected) {
      return refuse("{}: expected {} arguments, found {}", function, expected, arguments.size());
    }
    const PickleKind kind = graph_.node(arguments[0]).kind;
    const auto wrapped = found_.views.find(arguments[0]);
    if (wrapped != found_.views.end()) {
      wrapped_.insert(arguments[0]);
      found_.views.emplace(id, TensorView(wrapped->second));
      return true;
    }
    if (kind == PickleKind::kCall) return false;
    return refuse("{}: expected a tensor, found {}", function, graph_.describe(arguments[0]));
  }
  // (function, class, arguments, state): a tensor with Python attributes.
  if (arguments.size() != 4) {
    return refuse("{}: expected 4 arguments, found {}", function, arguments.size());
  }
  const PickleNode& rebuild = graph_.node(arguments[0]);
  const bool is_plain = rebuild.kind == PickleKind::kGlobal && rebuild.text == "torch._utils" &&
                        is_plain_rebuild(rebuild.name);
  const bool is_known_class = graph_.is_global(arguments[1], "torch", "Tensor") ||
                              graph_.is_global(arguments[1], "torch.nn.parameter", "Parameter") ||
                              graph_.is_global(arguments[1], "torch.nn.parameter", "Buffer");
  if (!is_plain || !is_known_class) return false;
  const PickleNode& inner = graph_.node(arguments[2]);
  if (inner.kind != PickleKind::kTuple) {
    return refuse("{}: expected a tuple of arguments, found {}", function,
                  graph_.describe(arguments[2]));
  }
  MEG_ASSIGN_OR_RETURN(found_.views[id], read_rebuild(rebuild.name, inner.children));
  return true;
}

/// (storage, offset, size, stride), v2: + (requires_grad, hooks[, metadata]),
/// v3: + (requires_grad, hooks, dtype[, metadata])
Result<TensorView> Finder::read_rebuild(const std::string& function,
                                        std::span<const PickleId> arguments) {
  const size_t least = function == "_rebuild_tensor" ? 4 : function == "_rebuild_tensor_v2" ? 6 : 7;
  const size_t most = least == 4 ? 4 : least + 1;
  if (arguments.size() < least || arguments.size() > most) {
    return refuse("{}: expected {} arguments, found {}", function, least, arguments.size());
  }
  const auto window = windows_.find(arguments[0]);
  if (window == windows_.end()) {
    return refuse("{}: expected a storage, found {}", function, graph_.describe(arguments[0]));
  }
  const std::string& key = found_.storages[static_cast<size_t>(window->second.storage)].key;
  const std::string where = fmt::format("tensor of storage {}", printable(key));
  TensorView view;
  view.storage = window->second.storage;
  view.dtype = window->second.dtype;
  if (function == "_rebuild_tensor_v3") {
    MEG_ASSIGN_OR_RETURN(view.dtype, read_dtype(arguments[6]));
  } else if (window->second.is_untyped) {
    return refuse("{}: {} names no dtype", where, function);
  }
  if (arguments.size() == most && most > 4) MEG_RETURN_IF_ERROR(check_metadata(arguments.back()));
  const auto offset = graph_.as_int(arguments[1]);
  if (!offset) {
    return refuse("{}: offset: expected an int, found {}", where, graph_.describe(arguments[1]));
  }
  view.offset = *offset;
  MEG_ASSIGN_OR_RETURN(view.shape, read_sizes(arguments[2], where + ": shape"));
  MEG_ASSIGN_OR_RETURN(view.strides, read_sizes(arguments[3], where + ": strides"));
  MEG_RETURN_IF_ERROR(check_tensor_view(view, window->second.bytes)
                          .with_prefix(fmt::format("{}: {}", name_, where)));
  view.offset += static_cast<int64_t>(window->second.first_byte) / dtype_size(view.dtype);
  return view;
}

Result<std::vector<int64_t>> Finder::read_sizes(PickleId id, std::string_view what) const {
  const PickleNode* node = &graph_.node(id);
  if (graph_.class_name(id) == "torch.Size" && node->kind == PickleKind::kCall) {
    const PickleNode& arguments = graph_.node(node->children[1]);
    if (arguments.children.size() == 1) node = &graph_.node(arguments.children[0]);
  }
  if (node->kind != PickleKind::kTuple && node->kind != PickleKind::kList) {
    return refuse("{}: expected a tuple of ints, found {}", what, graph_.describe(id));
  }
  std::vector<int64_t> sizes;
  sizes.reserve(node->children.size());
  for (const PickleId child : node->children) {
    const auto size = graph_.as_int(child);
    if (!size) {
      return refuse("{}: expected a tuple of ints, found {}", what, graph_.describe(id));
    }
    sizes.push_back(*size);
  }
  return sizes;
}

Result<DType> Finder::read_dtype(PickleId id) const {
  const PickleNode& node = graph_.node(id);
  if (node.kind != PickleKind::kGlobal || node.text != "torch") {
    return refuse("_rebuild_tensor_v3: expected a dtype, found {}", graph_.describe(id));
  }
  const auto dtype = dtype_from_name(node.name);
  if (!dtype) {
    return make_error(StatusCode::kUnsupported, "{}: tensor of dtype torch.{}", name_,
                      printable(node.name));
  }
  return *dtype;
}

/// Conjugated and negated views keep the bytes of what they were made from.
Status Finder::check_metadata(PickleId id) const {
  for (const char* bit : {"conj", "neg"}) {
    const auto value = graph_.find(id, bit);
    if (value && graph_.as_bool(*value) != false) {
      return make_error(StatusCode::kUnsupported, "{}: tensor with its {} bit set", name_, bit);
    }
  }
  return {};
}

/// A storage without dtype takes that of its tensors where they agree.
void Finder::type_untyped_storages() {
  std::vector<std::optional<DType>> seen(found_.storages.size());
  std::vector<bool> differ(found_.storages.size());
  for (const auto& [id, view] : found_.views) {
    const auto storage = static_cast<size_t>(view.storage);
    if (seen[storage] && *seen[storage] != view.dtype) differ[storage] = true;
    seen[storage] = view.dtype;
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    TorchStorage& storage = found_.storages[i];
    if (!untyped_[i] || !seen[i] || differ[i]) continue;
    if (storage.bytes % static_cast<uint64_t>(dtype_size(*seen[i])) == 0) storage.dtype = *seen[i];
  }
}

}  // namespace

Result<TorchTensors> find_torch_tensors(const PickleGraph& graph, const std::string& name) {
  return Finder(graph, name).run();
}

Status check_tensor_view(const TensorView& view, uint64_t storage_bytes) {
  const auto refuse = [&](std::string_view what) {
    return make_error(StatusCode::kCorruption,
                      "shape {} with strides {} at offset {} of {} bytes of {}: {}",
                      shape_text(view.shape), shape_text(view.strides), view.offset, storage_bytes,
                      dtype_name(view.dtype), what);
  };
  if (view.shape.size() != view.strides.size()) return refuse("shape and strides differ in rank");
  if (view.offset < 0) return refuse("expected an offset of at least 0");
  const auto item = static_cast<uint64_t>(dtype_size(view.dtype));
  const uint64_t held = storage_bytes / item;
  uint64_t numel = 1;  // Zeros left out, so that no order of multiplying can overflow.
  uint64_t last = static_cast<uint64_t>(view.offset);
  bool fits = true;
  bool reaches = true;
  bool is_empty = false;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] < 0 || view.strides[i] < 0) return refuse("expected no negative numbers");
    const auto size = static_cast<uint64_t>(view.shape[i]);
    is_empty |= size == 0;
    if (size == 0) continue;
    uint64_t step = 0;
    fits &= checked_multiply(numel, size, &numel);
    reaches &= checked_multiply(size - 1, static_cast<uint64_t>(view.strides[i]), &step) &&
               checked_add(last, step, &last);
  }
  uint64_t bytes = 0;
  fits &= checked_multiply(numel, item, &bytes) && bytes <= INT64_MAX;
  if (!fits) return refuse("its size overflows 64 bits");
  if (is_empty) return {};  // torch makes these past the storage's end too
  if (!reaches) return refuse("its extent overflows 64 bits");
  if (last >= held) return refuse("lies outside its storage");
  if (numel > held && numel > kMaxRepeatedElements) return refuse("repeats too many elements");
  return {};
}

}  // namespace meg
