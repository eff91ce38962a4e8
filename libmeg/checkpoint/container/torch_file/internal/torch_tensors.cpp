#include "libmeg/checkpoint/container/torch_file/internal/torch_tensors.h"

#include <optional>
#include <unordered_set>

#include "libmeg/checkpoint/container/torch_file/internal/torch_storages.h"
#include "libmeg/text/printable.h"

// A tensor in a pickle is a call of one of a few functions of torch. They are known by name and
// their arguments are read and checked; whatever else is called stays opaque.

namespace meg::checkpoint {
namespace {

/// More dimensions than torch's own operations take; shapes are copied to every view.
constexpr size_t kMaxRank = 64;

class TensorFinder {
 public:
  TensorFinder(const PickleGraph& graph, const std::string& name) : graph_(graph), name_(name) {}

  Result<TorchTensors> run();

 private:
  Status read_call(PickleId id);
  Result<bool> read_parameter(PickleId id, const std::string& function,
                              std::span<const PickleId> arguments);
  Result<bool> read_from_type(PickleId id, const std::string& function,
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
  TorchStorages storages_;
  TorchTensors found_;
  std::unordered_set<PickleId> wrapped_;
};

/// (storage, offset, shape, strides), followed by more in v2 and v3.
bool is_rebuild(const PickleNode& global) {
  return global.kind == PickleKind::kGlobal && global.text == "torch._utils" &&
         (global.name == "_rebuild_tensor" || global.name == "_rebuild_tensor_v2" ||
          global.name == "_rebuild_tensor_v3");
}

/// (tensor, requires_grad, hooks[, state])
bool is_parameter(const PickleNode& global) {
  return global.kind == PickleKind::kGlobal && global.text == "torch._utils" &&
         (global.name == "_rebuild_parameter" || global.name == "_rebuild_parameter_with_state");
}

/// (function, class, its arguments, state): a tensor with Python attributes.
bool is_from_type(const PickleNode& global) {
  return global.kind == PickleKind::kGlobal && global.text == "torch._tensor" &&
         (global.name == "_rebuild_from_type_v2" || global.name == "_rebuild_from_type");
}

Result<TorchTensors> TensorFinder::run() {
  MEG_ASSIGN_OR_RETURN(storages_, find_torch_storages(graph_, name_));
  // The arguments of a call precede it.
  for (PickleId id = 0; id < graph_.size(); ++id) {
    if (graph_.node(id).kind == PickleKind::kCall) MEG_RETURN_IF_ERROR(read_call(id));
  }
  // The tensor inside a parameter is listed once, as the parameter.
  std::erase_if(found_.nodes, [&](PickleId id) { return wrapped_.contains(id); });
  type_untyped_storages();
  found_.storages = std::move(storages_.storages);
  return std::move(found_);
}

Status TensorFinder::read_call(PickleId id) {
  const PickleNode& callee = graph_.node(graph_.node(id).children[0]);
  if (!is_rebuild(callee) && !is_parameter(callee) && !is_from_type(callee)) return {};
  const PickleNode& arguments = graph_.node(graph_.node(id).children[1]);
  const PickleCall& call = graph_.call(id);
  if (call.form != PickleCallForm::kReduce || arguments.kind != PickleKind::kTuple) {
    return refuse("{}: expected a call with a tuple of arguments", callee.name);
  }
  // BUILD on a tensor may change anything (__setstate__), so its bytes could not be trusted.
  if (!call.items.empty() || !call.pairs.empty() || !call.states.empty()) {
    return make_error(StatusCode::kUnsupported,
                      "{}: {}: a tensor that is modified after it was created", name_, callee.name);
  }
  bool is_tensor = true;
  if (is_parameter(callee)) {
    MEG_ASSIGN_OR_RETURN(is_tensor, read_parameter(id, callee.name, arguments.children));
  } else if (is_from_type(callee)) {
    MEG_ASSIGN_OR_RETURN(is_tensor, read_from_type(id, callee.name, arguments.children));
  } else {
    MEG_ASSIGN_OR_RETURN(found_.views[id], read_rebuild(callee.name, arguments.children));
  }
  if (is_tensor) found_.nodes.push_back(id);
  return {};
}

/// Returns whether the tensor in it is known here.
Result<bool> TensorFinder::read_parameter(PickleId id, const std::string& function,
                                          std::span<const PickleId> arguments) {
  const size_t expected = function == "_rebuild_parameter" ? 3 : 4;
  if (arguments.size() != expected) {
    return refuse("{}: expected {} arguments, found {}", function, expected, arguments.size());
  }
  const auto wrapped = found_.views.find(arguments[0]);
  if (wrapped != found_.views.end()) {
    wrapped_.insert(arguments[0]);
    found_.views.emplace(id, TensorView(wrapped->second));
    return true;
  }
  // A parameter around a tensor subclass of another library (a quantized or sharded one) is kept as
  // an opaque call, because its tensors alone would not show what it is.
  if (graph_.node(arguments[0]).kind == PickleKind::kCall) return false;
  return refuse("{}: expected a tensor, found {}", function, graph_.describe(arguments[0]));
}

/// Returns whether it is a tensor of torch's own classes; others may mean anything.
Result<bool> TensorFinder::read_from_type(PickleId id, const std::string& function,
                                          std::span<const PickleId> arguments) {
  if (arguments.size() != 4) {
    return refuse("{}: expected 4 arguments, found {}", function, arguments.size());
  }
  const PickleNode& rebuild = graph_.node(arguments[0]);
  if (!is_rebuild(rebuild) || (!graph_.is_global(arguments[1], "torch", "Tensor") &&
                               !graph_.is_global(arguments[1], "torch.nn.parameter", "Parameter") &&
                               !graph_.is_global(arguments[1], "torch.nn.parameter", "Buffer"))) {
    return false;
  }
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
Result<TensorView> TensorFinder::read_rebuild(const std::string& function,
                                              std::span<const PickleId> arguments) {
  const size_t least = function == "_rebuild_tensor" ? 4 : function == "_rebuild_tensor_v2" ? 6 : 7;
  const size_t most = least == 4 ? 4 : least + 1;
  if (arguments.size() < least || arguments.size() > most) {
    return refuse("{}: expected {} arguments, found {}", function, least, arguments.size());
  }
  const auto found = storages_.windows.find(arguments[0]);
  if (found == storages_.windows.end()) {
    return refuse("{}: expected a storage, found {}", function, graph_.describe(arguments[0]));
  }
  const StorageWindow& window = found->second;
  const std::string& key = storages_.storages[static_cast<size_t>(window.storage)].key;
  const std::string where = fmt::format("tensor of storage {}", text::printable(key));
  TensorView view;
  view.storage = window.storage;
  view.dtype = window.dtype;
  if (function == "_rebuild_tensor_v3") {
    MEG_ASSIGN_OR_RETURN(view.dtype, read_dtype(arguments[6]));
  } else if (window.is_untyped) {
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
  MEG_RETURN_IF_ERROR(
      check_tensor_view(view, window.bytes).with_prefix(fmt::format("{}: {}", name_, where)));
  // Checked against the window first and moved into the storage then; the other way round a view
  // could reach out of its window.
  const auto begin = static_cast<int64_t>(window.first_byte) / dtype_size(view.dtype);
  if (__builtin_add_overflow(view.offset, begin, &view.offset)) {
    return refuse("{}: offset {} overflows 64 bits", where, *offset);
  }
  return view;
}

Result<std::vector<int64_t>> TensorFinder::read_sizes(PickleId id, std::string_view what) const {
  const PickleNode* node = &graph_.node(id);
  if (graph_.class_name(id) == "torch.Size" && node->kind == PickleKind::kCall) {
    const PickleNode& arguments = graph_.node(node->children[1]);
    if (arguments.children.size() == 1) node = &graph_.node(arguments.children[0]);
  }
  if (node->kind != PickleKind::kTuple && node->kind != PickleKind::kList) {
    return refuse("{}: expected a tuple of ints, found {}", what, graph_.describe(id));
  }
  if (node->children.size() > kMaxRank) {
    return make_error(StatusCode::kUnsupported, "{}: {}: {} dimensions", name_, what,
                      node->children.size());
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

Result<DType> TensorFinder::read_dtype(PickleId id) const {
  const PickleNode& node = graph_.node(id);
  if (node.kind != PickleKind::kGlobal || node.text != "torch") {
    return refuse("_rebuild_tensor_v3: expected a dtype, found {}", graph_.describe(id));
  }
  const auto dtype = dtype_from_name(node.name);
  if (!dtype) {
    return make_error(StatusCode::kUnsupported, "{}: tensor of dtype torch.{}", name_,
                      text::printable(node.name));
  }
  return *dtype;
}

/// Conjugated and negated views keep the bytes of what they were made from.
Status TensorFinder::check_metadata(PickleId id) const {
  // torch's words for them; where they are set, what a reader sees is not what the bytes say.
  for (const char* bit : {"conj", "neg"}) {
    const auto value = graph_.find(id, bit);
    if (value && graph_.as_bool(*value) != false) {
      return make_error(StatusCode::kUnsupported, "{}: tensor with its {} bit set", name_, bit);
    }
  }
  return {};
}

/// A storage without dtype takes that of its tensors where they agree.
void TensorFinder::type_untyped_storages() {
  std::vector<std::optional<DType>> seen(storages_.storages.size());
  std::vector<bool> differ(storages_.storages.size());
  for (const auto& [id, view] : found_.views) {
    const auto storage = static_cast<size_t>(view.storage);
    if (seen[storage] && *seen[storage] != view.dtype) differ[storage] = true;
    seen[storage] = view.dtype;
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    TorchStorage& storage = storages_.storages[i];
    if (!storages_.is_untyped[i] || !seen[i] || differ[i]) continue;
    // This helps those who show or compare storages; tensors keep their own.
    if (storage.bytes % static_cast<uint64_t>(dtype_size(*seen[i])) == 0) storage.dtype = *seen[i];
  }
}

}  // namespace

Result<TorchTensors> find_torch_tensors(const PickleGraph& graph, const std::string& name) {
  return TensorFinder(graph, name).run();
}

}  // namespace meg::checkpoint
