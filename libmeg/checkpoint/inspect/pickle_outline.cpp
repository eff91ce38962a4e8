#include "libmeg/checkpoint/inspect/pickle_outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "libmeg/checkpoint/inspect/internal/numpy_array.h"
#include "libmeg/checkpoint/inspect/named_tensors.h"

namespace meg::checkpoint {
namespace {

constexpr size_t kTextBytes = 100;
constexpr size_t kKeyBytes = 200;
/// Objects with more are not opened: args have hundreds.
constexpr size_t kMaxAttributes = 20;

std::string counted(std::string_view what, size_t count) {
  return fmt::format("{} of {}", what, count);
}

class Outliner {
 public:
  Outliner(const TorchFile& file, size_t max_lines)
      : file_(file), graph_(file.graph()), max_lines_(max_lines), was_shown_(graph_.size()) {}

  Outline outline() {
    add("", file_.root(), 0);
    return std::move(outline_);
  }

 private:
  void add(const std::string& key, PickleId id, int depth) {
    if (outline_.lines.size() >= max_lines_ || depth > PickleGraph::kMaxDepth) {
      outline_.is_cut = true;
      return;
    }
    if (const TensorView* view = file_.tensor(id)) {
      return line(key, depth,
                  fmt::format("{} {}", dtype_name(view->dtype), shape_text(view->shape)));
    }
    if (const std::optional<NumpyArray> array = numpy_array(graph_, id)) {
      return line(key, depth, fmt::format("numpy:{} {}", array->dtype, shape_text(array->shape)));
    }
    const std::string container = container_text(id);
    if (container.empty()) return line(key, depth, graph_.describe(id, kTextBytes));
    // Each container once: shared ones would repeat their lines, and cyclic ones never end.
    if (was_shown_[id]) return line(key, depth, container + ", as shown above");
    was_shown_[id] = true;
    line(key, depth, container);
    add_content(id, depth + 1);
  }

  void line(std::string key, int depth, std::string text) {
    if (key.size() > kKeyBytes) key = key.substr(0, kKeyBytes) + "...";
    outline_.lines.push_back({depth, std::move(key), std::move(text)});
  }

  /// What a container is called; empty for what stays on one line.
  std::string container_text(PickleId id) const {
    const PickleNode& node = graph_.node(id);
    switch (node.kind) {
      case PickleKind::kDict:
        return counted("dict", node.children.size() / 2);
      case PickleKind::kList:
        return is_plain(node.children) ? "" : counted("list", node.children.size());
      case PickleKind::kTuple:
        return is_plain(node.children) ? "" : counted("tuple", node.children.size());
      case PickleKind::kCall:
        return call_text(id);
      default:
        return "";
    }
  }

  std::string call_text(PickleId id) const {
    const PickleCall& call = graph_.call(id);
    const std::string name = graph_.class_name(id);
    const size_t entries = call.pairs.size() / 2 + call.items.size();
    if (entries == 0 && name == "collections.OrderedDict") return counted(name, 0);
    if (entries > 0) return counted(name, entries);
    const std::optional<PickleId> attributes = graph_.attributes(id);
    if (!attributes.has_value()) return "";
    return fmt::format("{} with {} attributes", name, graph_.pairs(*attributes).size() / 2);
  }

  /// Whether all elements are shown well on one line.
  bool is_plain(const std::vector<PickleId>& elements) const {
    return std::none_of(elements.begin(), elements.end(), [this](PickleId id) {
      const PickleKind kind = graph_.node(id).kind;
      return kind == PickleKind::kDict || kind == PickleKind::kCall || kind == PickleKind::kList ||
             kind == PickleKind::kTuple;
    });
  }

  void add_content(PickleId id, int depth) {
    const PickleNode& node = graph_.node(id);
    if (node.kind == PickleKind::kDict) return add_pairs(node.children, depth);
    if (node.kind != PickleKind::kCall) return add_items(node.children, depth);
    const PickleCall& call = graph_.call(id);
    add_items(call.items, depth);
    add_pairs(call.pairs, depth);
    const std::optional<PickleId> attributes = graph_.attributes(id);
    if (!attributes.has_value()) return;
    const std::span<const PickleId> pairs = graph_.pairs(*attributes);
    if (pairs.size() / 2 <= kMaxAttributes) add_pairs(pairs, depth);
  }

  void add_pairs(std::span<const PickleId> pairs, int depth) {
    for (size_t i = 0; i + 1 < pairs.size() && !outline_.is_cut; i += 2) {
      add(key_text(graph_, pairs[i]), pairs[i + 1], depth);
    }
  }

  void add_items(std::span<const PickleId> items, int depth) {
    for (size_t i = 0; i < items.size() && !outline_.is_cut; ++i) {
      add(fmt::format("{}", i), items[i], depth);
    }
  }

  const TorchFile& file_;
  const PickleGraph& graph_;
  size_t max_lines_;
  std::vector<bool> was_shown_;
  Outline outline_;
};

}  // namespace

Outline outline_of(const TorchFile& file, size_t max_lines) {
  return Outliner(file, max_lines).outline();
}

}  // namespace meg::checkpoint
