#include <utility>

#include "libmeg/checkpoint/container/pickle/internal/pickle_machine.h"

namespace meg::checkpoint {

Status PickleMachine::wrong_kind(std::string_view what, std::string_view expected,
                                 PickleKind found) {
  return make_error(StatusCode::kCorruption, "{}: expected {}, found {}", what, expected,
                    pickle_kind_name(found));
}

Status PickleMachine::tuple_of(size_t count) {
  if (stack_.size() - fence() < count) {
    return make_error(StatusCode::kCorruption, "TUPLE{}: expected {} values on the stack, found {}",
                      count, count, stack_.size() - fence());
  }
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<PickleId> elements(first, stack_.end());
  stack_.erase(first, stack_.end());
  return push(graph_->add_tuple(std::move(elements)));
}

Status PickleMachine::collect(PickleKind kind) {
  MEG_ASSIGN_OR_RETURN(std::vector<PickleId> items, take_to_mark(pickle_kind_name(kind)));
  // Equal keys all stay, as telling them apart would ask for Python's equality; find() takes the
  // last.
  if (kind == PickleKind::kDict && items.size() % 2 != 0) {
    return make_error(StatusCode::kCorruption, "DICT: expected keys and values, found {} items",
                      items.size());
  }
  PickleNode node;
  node.kind = kind;
  node.children = std::move(items);
  return push(graph_->add(std::move(node)));
}

Status PickleMachine::append() {
  MEG_ASSIGN_OR_RETURN(const PickleId item, take("APPEND"));
  MEG_ASSIGN_OR_RETURN(const PickleId container, top("APPEND"));
  return extend(container, {item}, "APPEND");
}

Status PickleMachine::appends() {
  MEG_ASSIGN_OR_RETURN(const std::vector<PickleId> items, take_to_mark("APPENDS"));
  MEG_ASSIGN_OR_RETURN(const PickleId container, top("APPENDS"));
  return extend(container, items, "APPENDS");
}

Status PickleMachine::set_item() {
  MEG_ASSIGN_OR_RETURN(const PickleId value, take("SETITEM"));
  MEG_ASSIGN_OR_RETURN(const PickleId key, take("SETITEM"));
  MEG_ASSIGN_OR_RETURN(const PickleId container, top("SETITEM"));
  return extend_pairs(container, {key, value}, "SETITEM");
}

Status PickleMachine::set_items() {
  MEG_ASSIGN_OR_RETURN(const std::vector<PickleId> items, take_to_mark("SETITEMS"));
  MEG_ASSIGN_OR_RETURN(const PickleId container, top("SETITEMS"));
  return extend_pairs(container, items, "SETITEMS");
}

Status PickleMachine::add_items() {
  MEG_ASSIGN_OR_RETURN(const std::vector<PickleId> items, take_to_mark("ADDITEMS"));
  MEG_ASSIGN_OR_RETURN(const PickleId container, top("ADDITEMS"));
  PickleNode& node = graph_->mutable_node(container);
  if (node.kind != PickleKind::kSet) return wrong_kind("ADDITEMS", "a set", node.kind);
  node.children.insert(node.children.end(), items.begin(), items.end());
  return deepen(container, items);
}

Status PickleMachine::extend(PickleId container, const std::vector<PickleId>& items,
                             std::string_view what) {
  PickleNode& node = graph_->mutable_node(container);
  if (node.kind != PickleKind::kList && node.kind != PickleKind::kCall) {
    return wrong_kind(what, "a list", node.kind);
  }
  // Objects take items too: APPENDS calls extend() or append() of a list's subclass or a deque.
  std::vector<PickleId>& target =
      node.kind == PickleKind::kList ? node.children : graph_->mutable_call(container).items;
  // A list that grows after a call has taken it (see call()).
  if (node.kind == PickleKind::kList && taken_[container - first_]) node.boolean = true;
  target.insert(target.end(), items.begin(), items.end());
  return deepen(container, items);
}

Status PickleMachine::extend_pairs(PickleId container, const std::vector<PickleId>& items,
                                   std::string_view what) {
  PickleNode& node = graph_->mutable_node(container);
  if (node.kind != PickleKind::kDict && node.kind != PickleKind::kCall) {
    return wrong_kind(what, "a dict", node.kind);
  }
  if (items.size() % 2 != 0) {
    return make_error(StatusCode::kCorruption, "{}: expected keys and values, found {} items", what,
                      items.size());
  }
  std::vector<PickleId>& target =
      node.kind == PickleKind::kDict ? node.children : graph_->mutable_call(container).pairs;
  target.insert(target.end(), items.begin(), items.end());
  return deepen(container, items);
}

}  // namespace meg::checkpoint
