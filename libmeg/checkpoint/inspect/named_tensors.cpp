#include "libmeg/checkpoint/inspect/named_tensors.h"

#include <fmt/format.h>

#include <optional>

#include "libmeg/checkpoint/inspect/internal/numpy_array.h"

namespace meg::checkpoint {
namespace {

/// Far more than any model has tensors.
constexpr size_t kMaxTensors = 1 << 20;
/// All names together, in bytes.
constexpr size_t kMaxNameBytes = size_t{64} << 20;
/// Containers entered; a file may share one container in many places.
constexpr int64_t kMaxVisits = 1 << 22;

/// Calls visit(child) for everything a node refers to.
template <class Visit>
void visit_children(const PickleGraph& graph, PickleId id, const Visit& visit) {
  for (const PickleId child : graph.node(id).children) visit(child);
  if (graph.node(id).kind != PickleKind::kCall) return;
  const PickleCall& call = graph.call(id);
  for (const auto* part : {&call.items, &call.pairs, &call.states}) {
    for (const PickleId child : *part) visit(child);
  }
}

/// Walks all paths that lead to tensors.
class Walker {
 public:
  explicit Walker(const TorchFile& file)
      : file_(file),
        graph_(file.graph()),
        leads_to_tensor_(graph_.size()),
        is_open_(graph_.size()) {
    mark_ways();
  }

  NamedTensors walk() {
    walk_value(file_.root(), 0);
    return std::move(found_);
  }

 private:
  /// Marks every node from which a tensor can be reached, going backwards from the tensors, so that
  /// the walk enters no container in vain.
  void mark_ways() {
    std::vector<std::vector<PickleId>> parents(graph_.size());
    std::vector<PickleId> open;
    for (PickleId id = 0; id < graph_.size(); ++id) {
      if (file_.tensor(id) != nullptr || numpy_array(graph_, id).has_value()) {
        leads_to_tensor_[id] = true;
        open.push_back(id);
      } else {
        visit_children(graph_, id, [&](PickleId child) { parents[child].push_back(id); });
      }
    }
    while (!open.empty()) {
      const PickleId id = open.back();
      open.pop_back();
      for (const PickleId parent : parents[id]) {
        if (leads_to_tensor_[parent]) continue;
        leads_to_tensor_[parent] = true;
        open.push_back(parent);
      }
    }
  }

  void walk_value(PickleId id, int depth) {
    // Unlike an outline this walks every path, as one tensor may have several names; a hostile
    // graph of n levels with two ways each has 2^n of them, which the limits below end.
    if (!leads_to_tensor_[id] || is_open_[id] || found_.is_cut) return;
    name_bytes_ += name_.size();
    if (found_.tensors.size() >= kMaxTensors || name_bytes_ > kMaxNameBytes ||
        ++visits_ > kMaxVisits || depth > PickleGraph::kMaxDepth) {
      found_.is_cut = true;
      return;
    }
    if (add(id)) return;
    is_open_[id] = true;
    walk_container(id, depth);
    is_open_[id] = false;
  }

  void walk_container(PickleId id, int depth) {
    const PickleNode& node = graph_.node(id);
    if (node.kind == PickleKind::kDict) {
      walk_pairs(node.children, depth);
    } else if (node.kind == PickleKind::kCall) {
      const PickleCall& call = graph_.call(id);
      walk_items(call.items, depth);
      walk_pairs(call.pairs, depth);
      for (const PickleId state : call.states) walk_value(state, depth + 1);
    } else {
      walk_items(node.children, depth);
    }
  }

  void walk_pairs(const std::vector<PickleId>& pairs, int depth) {
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (leads_to_tensor_[pairs[i + 1]]) {
        walk_named(key_text(graph_, pairs[i]), pairs[i + 1], depth);
      }
    }
  }

  void walk_items(const std::vector<PickleId>& items, int depth) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (leads_to_tensor_[items[i]]) walk_named(fmt::format("{}", i), items[i], depth);
    }
  }

  void walk_named(const std::string& key, PickleId id, int depth) {
    const size_t before = name_.size();
    if (!name_.empty()) name_ += '/';
    name_ += key;
    walk_value(id, depth + 1);
    name_.resize(before);
  }

  /// Whether the node is a tensor or an array.
  bool add(PickleId id) {
    if (const TensorView* view = file_.tensor(id)) {
      found_.tensors.push_back({name_, std::string(dtype_name(view->dtype)), view->shape,
                                view->numel(), view->bytes(), view});
      return true;
    }
    if (std::optional<NumpyArray> array = numpy_array(graph_, id)) {
      found_.tensors.push_back({name_, "numpy:" + array->dtype, std::move(array->shape),
                                array->elements, array->bytes, nullptr});
      return true;
    }
    return false;
  }

  const TorchFile& file_;
  const PickleGraph& graph_;
  std::vector<bool> leads_to_tensor_;
  std::vector<bool> is_open_;  // containers on the way to here
  std::string name_;
  size_t name_bytes_ = 0;
  int64_t visits_ = 0;
  NamedTensors found_;
};

}  // namespace

NamedTensors named_tensors(const TorchFile& file) { return Walker(file).walk(); }

std::string key_text(const PickleGraph& graph, PickleId key) {
  const std::optional<std::string_view> text = graph.as_string(key);
  return text.has_value() ? std::string(*text) : graph.describe(key);
}

}  // namespace meg::checkpoint
