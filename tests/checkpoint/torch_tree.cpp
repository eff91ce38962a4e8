#include "tests/checkpoint/torch_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace meg::test {
namespace {

class Comparison {
 public:
  std::vector<std::string> found;

  void compare(TreeNode a, TreeNode b, const std::string& path) {
    const checkpoint::TensorView* left = a.file->tensor(a.id);
    const checkpoint::TensorView* right = b.file->tensor(b.id);
    if (left != nullptr || right != nullptr) return compare_tensors(a, b, path);
    const checkpoint::PickleNode& x = a.graph().node(a.id);
    const checkpoint::PickleNode& y = b.graph().node(b.id);
    const bool same = x.kind == y.kind && x.boolean == y.boolean && x.integer == y.integer &&
                      x.real == y.real && x.text == y.text && x.name == y.name;
    if (!same) return differ(path, a, b);
    if (x.kind == checkpoint::PickleKind::kDict) {
      compare_pairs(a, b, x.children, y.children, path);
    } else {
      compare_lists(a, b, x.children, y.children, path);
    }
    if (x.kind != checkpoint::PickleKind::kCall) return;
    const checkpoint::PickleCall& left_call = a.graph().call(a.id);
    const checkpoint::PickleCall& right_call = b.graph().call(b.id);
    compare_lists(a, b, left_call.items, right_call.items, path);
    compare_pairs(a, b, left_call.pairs, right_call.pairs, path);
    if (a.graph().class_name(a.id) == "collections.OrderedDict") return;
    compare_lists(a, b, left_call.states, right_call.states, path);
  }

 private:
  void differ(const std::string& path, TreeNode a, TreeNode b) {
    found.push_back(fmt::format("{}: {} and {}", path, a.graph().describe(a.id, 60),
                                b.graph().describe(b.id, 60)));
  }

  void compare_tensors(TreeNode a, TreeNode b, const std::string& path) {
    const checkpoint::TensorView* left = a.file->tensor(a.id);
    const checkpoint::TensorView* right = b.file->tensor(b.id);
    if (left == nullptr || right == nullptr) return differ(path, a, b);
    if (left->dtype != right->dtype || left->shape != right->shape) {
      found.push_back(fmt::format("{}: {} {} and {} {}", path, dtype_name(left->dtype),
                                  checkpoint::shape_text(left->shape), dtype_name(right->dtype),
                                  checkpoint::shape_text(right->shape)));
    } else if (a.bytes() != b.bytes()) {
      found.push_back(path + ": other values");
    }
  }

  void compare_lists(TreeNode a, TreeNode b, const std::vector<checkpoint::PickleId>& x,
                     const std::vector<checkpoint::PickleId>& y, const std::string& path) {
    if (x.size() != y.size()) {
      found.push_back(fmt::format("{}: {} elements and {}", path, x.size(), y.size()));
      return;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      compare({a.file, x[i]}, {b.file, y[i]}, fmt::format("{}/{}", path, i));
    }
  }

  void compare_pairs(TreeNode a, TreeNode b, const std::vector<checkpoint::PickleId>& x,
                     const std::vector<checkpoint::PickleId>& y, const std::string& path) {
    if (x.size() != y.size()) {
      found.push_back(fmt::format("{}: {} keys and {}", path, x.size() / 2, y.size() / 2));
    }
    for (size_t i = 0; i + 1 < std::min(x.size(), y.size()); i += 2) {
      compare({a.file, x[i]}, {b.file, y[i]}, fmt::format("{}/key {}", path, i / 2));
      compare({a.file, x[i + 1]}, {b.file, y[i + 1]},
              fmt::format("{}/{}", path, a.graph().describe(x[i], 80)));
    }
  }
};

}  // namespace

TreeNode TreeNode::at(const std::string& path) const {
  TreeNode node = *this;
  for (size_t begin = 0; node && begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    begin = end + 1;
    const checkpoint::PickleGraph& graph = node.graph();
    const checkpoint::PickleNode& here = graph.node(node.id);
    size_t index = 0;
    const bool is_number =
        std::from_chars(key.data(), key.data() + key.size(), index).ptr == key.data() + key.size();
    std::optional<checkpoint::PickleId> found = graph.find(node.id, key);
    if (here.kind == checkpoint::PickleKind::kList || here.kind == checkpoint::PickleKind::kTuple) {
      if (is_number && index < here.children.size()) found = here.children[index];
    } else if (!found.has_value() && is_number) {
      const auto pairs = graph.pairs(node.id);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        if (graph.as_int(pairs[i]) == static_cast<int64_t>(index)) found = pairs[i + 1];
      }
    }
    node = found.has_value() ? TreeNode{node.file, *found} : TreeNode{};
  }
  return node;
}

TreeNode TreeNode::attribute(const std::string& name) const {
  const std::optional<checkpoint::PickleId> found = graph().attribute(id, name);
  return found.has_value() ? TreeNode{file, *found} : TreeNode{};
}

std::vector<std::byte> TreeNode::bytes() const {
  const checkpoint::TensorView* view = file == nullptr ? nullptr : file->tensor(id);
  if (view == nullptr) return {};
  std::vector<std::byte> bytes(static_cast<size_t>(view->bytes()));
  return file->read_elements(*view, 0, bytes).ok() ? bytes : std::vector<std::byte>();
}

std::vector<std::string> TreeNode::keys() const {
  std::vector<std::string> names;
  if (file == nullptr) return names;
  const auto pairs = graph().pairs(id);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    names.emplace_back(graph().as_string(pairs[i]).value_or("?"));
  }
  return names;
}

std::vector<std::string> differences(TreeNode a, TreeNode b) {
  Comparison comparison;
  if (!a || !b)
    return a || b ? std::vector<std::string>{"only one is there"} : std::vector<std::string>();
  comparison.compare(a, b, "");
  return std::move(comparison.found);
}

}  // namespace meg::test
