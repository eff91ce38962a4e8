#include <optional>
#include <utility>

#include "libmeg/checkpoint/container/pickle/internal/pickle_machine.h"

// Classes, functions and persistent ids are names here, and a call is a note of what Python would
// call with which arguments. Readers of the graph know the few that they need by name.

namespace meg::checkpoint {

Status PickleMachine::global(std::string module, std::string name, bool is_path) {
  if (module.empty() || name.empty()) {
    return make_error(StatusCode::kCorruption,
                      "GLOBAL: expected a module and a name, found an empty one");
  }
  const bool has_dot = name.find('.') != std::string::npos;
  const PickleId id = graph_->add_global(std::move(module), std::move(name));
  // Since protocol 4 a dot in a name leads through attributes; before, it is part of the name.
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
    // Marks lists that are given to a call before they are filled (extend()): in Python the call
    // would see them empty, and the writer has to keep that order to give the same bytes again.
    taken_[argument - first_] = true;
  }
  const PickleId id = graph_->add_call(form, callee, arguments);
  if (keywords) graph_->mutable_node(id).children.push_back(*keywords);
  return push(id);
}

Status PickleMachine::call_marked(std::string module, std::string name) {
  // INST and OBJ are the calls of protocols 0 and 1: kept as REDUCE, so that readers of the graph
  // know one form of a call with arguments.
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
  // Kept and never applied: what a class makes of its state is known to that class alone.
  graph_->mutable_call(object).states.push_back(state);
  return deepen(object, {state});
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

}  // namespace meg::checkpoint
