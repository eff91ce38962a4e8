#include "libmeg/checkpoint/pickle_machine.h"

#include <algorithm>
#include <utility>

#include "libmeg/checkpoint/pickle_integer.h"
#include "libmeg/checkpoint/pickle_opcode.h"

namespace meg {

namespace {

Status too_many(std::string_view what) {
  return make_error(StatusCode::kResourceExhausted, "{}: expected at most {}, found more", what,
                    kMaxPickleNodes);
}

std::string_view kind_name(PickleKind kind) {
  switch (kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return "a bool";
    case PickleKind::kInt:
    case PickleKind::kBigInt:
      return "an int";
    case PickleKind::kFloat:
      return "a float";
    case PickleKind::kString:
      return "a str";
    case PickleKind::kBytes:
      return "bytes";
    case PickleKind::kByteArray:
      return "a bytearray";
    case PickleKind::kTuple:
      return "a tuple";
    case PickleKind::kList:
      return "a list";
    case PickleKind::kDict:
      return "a dict";
    case PickleKind::kSet:
      return "a set";
    case PickleKind::kFrozenSet:
      return "a frozenset";
    case PickleKind::kGlobal:
      return "a global";
    case PickleKind::kCall:
      return "an object";
    case PickleKind::kPersistent:
      return "a persistent object";
  }
  return "an unknown value";
}

Status wrong_kind(std::string_view what, std::string_view expected, PickleKind found) {
  return make_error(StatusCode::kCorruption, "{}: expected {}, found {}", what, expected,
                    kind_name(found));
}

}  // namespace

// ---- Values ----

Status PickleMachine::push(PickleId added) {
  if (depth_.size() >= kMaxPickleNodes) return too_many("values");
  depth_.push_back(0);
  taken_.push_back(false);
  MEG_RETURN_IF_ERROR(deepen(added, graph_->node(added).children));
  return push_known(added);
}

Status PickleMachine::push_known(PickleId id) {
  if (stack_.size() >= kMaxPickleNodes) return too_many("values on the stack");
  stack_.push_back(id);
  return Status();
}

Status PickleMachine::push_text(PickleKind kind, std::string text) {
  PickleNode node;
  node.kind = kind;
  node.text = std::move(text);
  return push(graph_->add(std::move(node)));
}

Status PickleMachine::push_twos_complement(std::string_view little_endian) {
  const std::string_view shortest = shortest_twos_complement(little_endian);
  if (shortest.size() <= sizeof(int64_t)) {
    return push(graph_->add_int(small_twos_complement(shortest)));
  }
  return push_text(PickleKind::kBigInt, std::string(shortest));
}

// ---- The stack ----

Status PickleMachine::mark() {
  // Each open mark belongs to a container inside that of the mark before.
  if (marks_.size() >= PickleGraph::kMaxDepth) {
    return make_error(StatusCode::kResourceExhausted,
                      "MARK: expected at most {} open marks, found more", PickleGraph::kMaxDepth);
  }
  marks_.push_back(static_cast<uint32_t>(stack_.size()));
  return Status();
}

Status PickleMachine::pop() {
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
    return Status();
  }
  MEG_ASSIGN_OR_RETURN(const PickleId dropped, take("POP"));
  if (is_state_setter(dropped)) {
    return make_error(StatusCode::kUnsupported,
                      "POP: expected an object that sets its own state, found a call of {} for it",
                      graph_->class_name(dropped));
  }
  return Status();
}

/// A pickler with a state setter calls setter(object, state) and drops the result, while the
/// object stays on the stack: dropping such a call here would lose the state.
bool PickleMachine::is_state_setter(PickleId call) const {
  const PickleNode& node = graph_->node(call);
  if (node.kind != PickleKind::kCall || stack_.size() == fence()) return false;
  const std::vector<PickleId>& arguments = graph_->node(node.children[1]).children;
  return arguments.size() == 2 && arguments[0] == stack_.back() &&
         graph_->node(arguments[0]).kind == PickleKind::kCall;
}

Status PickleMachine::pop_mark() { return take_to_mark("POP_MARK").status(); }

Status PickleMachine::dup() {
  MEG_ASSIGN_OR_RETURN(const PickleId id, top("DUP"));
  return push_known(id);
}

Result<PickleId> PickleMachine::top(std::string_view what) const {
  if (stack_.size() <= fence()) {
    return make_error(StatusCode::kCorruption, "{}: expected a value on the stack, found {}", what,
                      marks_.empty() ? "none" : "a MARK");
  }
  return stack_.back();
}

Result<PickleId> PickleMachine::take(std::string_view what) {
  MEG_ASSIGN_OR_RETURN(const PickleId id, top(what));
  stack_.pop_back();
  return id;
}

Result<std::vector<PickleId>> PickleMachine::take_to_mark(std::string_view what) {
  if (marks_.empty()) {
    return make_error(StatusCode::kCorruption, "{}: expected a MARK on the stack, found none",
                      what);
  }
  const auto first = stack_.begin() + marks_.back();
  std::vector<PickleId> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

// ---- Containers ----

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
  MEG_ASSIGN_OR_RETURN(std::vector<PickleId> items, take_to_mark(kind_name(kind)));
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
  std::vector<PickleId>& target =
      node.kind == PickleKind::kList ? node.children : graph_->mutable_call(container).items;
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

Status PickleMachine::deepen(PickleId parent, const std::vector<PickleId>& children) {
  uint16_t& depth = depth_[parent - first_];
  for (const PickleId child : children) {
    depth = std::max(depth, static_cast<uint16_t>(depth_[child - first_] + 1));
  }
  if (depth > PickleGraph::kMaxDepth) {
    return make_error(StatusCode::kResourceExhausted,
                      "nesting: expected at most {} levels, found more", PickleGraph::kMaxDepth);
  }
  return Status();
}

// ---- Names and calls ----

Status PickleMachine::global(std::string module, std::string name, bool is_path) {
  if (module.empty() || name.empty()) {
    return make_error(StatusCode::kCorruption,
                      "GLOBAL: expected a module and a name, found an empty one");
  }
  const bool has_dot = name.find('.') != std::string::npos;
  const PickleId id = graph_->add_global(std::move(module), std::move(name));
  graph_->mutable_node(id).boolean = is_path && has_dot;
  return push(id);
}

Status PickleMachine::stack_global() {
  MEG_ASSIGN_OR_RETURN(const PickleId name, take("STACK_GLOBAL"));
  MEG_ASSIGN_OR_RETURN(const PickleId module, take("STACK_GLOBAL"));
  for (const PickleId id : {module, name}) {
    const PickleKind kind = graph_->node(id).kind;
    if (kind != PickleKind::kString) return wrong_kind("STACK_GLOBAL", "a str", kind);
  }
  return global(graph_->node(module).text, graph_->node(name).text, true);
}

Status PickleMachine::persistent() {
  MEG_ASSIGN_OR_RETURN(const PickleId id, take("BINPERSID"));
  return push(graph_->add_persistent(id));
}

Status PickleMachine::call(PickleCallForm form) {
  std::optional<PickleId> keywords;
  if (form == PickleCallForm::kNewObjEx) {
    MEG_ASSIGN_OR_RETURN(keywords, take("NEWOBJ_EX"));
    const PickleKind kind = graph_->node(*keywords).kind;
    if (kind != PickleKind::kDict) return wrong_kind("NEWOBJ_EX", "a dict of keywords", kind);
  }
  const std::string_view what = form == PickleCallForm::kReduce ? "REDUCE" : "NEWOBJ";
  MEG_ASSIGN_OR_RETURN(const PickleId arguments, take(what));
  MEG_ASSIGN_OR_RETURN(const PickleId callee, take(what));
  const PickleKind kind = graph_->node(arguments).kind;
  if (kind != PickleKind::kTuple) return wrong_kind(what, "a tuple of arguments", kind);
  for (const PickleId argument : graph_->node(arguments).children) {
    taken_[argument - first_] = true;
  }
  const PickleId id = graph_->add_call(form, callee, arguments);
  if (keywords) graph_->mutable_node(id).children.push_back(*keywords);
  return push(id);
}

Status PickleMachine::call_marked(std::string module, std::string name) {
  MEG_ASSIGN_OR_RETURN(std::vector<PickleId> arguments, take_to_mark("INST"));
  MEG_RETURN_IF_ERROR(global(std::move(module), std::move(name), false));
  MEG_RETURN_IF_ERROR(push(graph_->add_tuple(std::move(arguments))));
  return call(PickleCallForm::kReduce);
}

Status PickleMachine::call_marked() {
  MEG_ASSIGN_OR_RETURN(std::vector<PickleId> arguments, take_to_mark("OBJ"));
  if (arguments.empty()) {
    return make_error(StatusCode::kCorruption, "OBJ: expected a class after MARK, found nothing");
  }
  MEG_RETURN_IF_ERROR(push_known(arguments.front()));
  arguments.erase(arguments.begin());
  MEG_RETURN_IF_ERROR(push(graph_->add_tuple(std::move(arguments))));
  return call(PickleCallForm::kReduce);
}

Status PickleMachine::build() {
  MEG_ASSIGN_OR_RETURN(const PickleId state, take("BUILD"));
  MEG_ASSIGN_OR_RETURN(const PickleId object, top("BUILD"));
  const PickleKind kind = graph_->node(object).kind;
  if (kind != PickleKind::kCall) return wrong_kind("BUILD", "an object", kind);
  graph_->mutable_call(object).states.push_back(state);
  return deepen(object, {state});
}

// ---- The memo ----

Status PickleMachine::put(uint32_t index) {
  if (memo_.size() >= kMaxPickleNodes) return too_many("values in the memo");
  MEG_ASSIGN_OR_RETURN(const PickleId id, top("PUT"));
  memo_.put(index, id);
  return Status();
}

Status PickleMachine::memoize() { return put(static_cast<uint32_t>(memo_.size())); }

Status PickleMachine::get(uint32_t index) {
  const std::optional<PickleId> id = memo_.get(index);
  if (!id) {
    return make_error(StatusCode::kCorruption, "GET: expected a memo entry {}, found none", index);
  }
  return push_known(*id);
}

}  // namespace meg
