#include "libmeg/chat/internal/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "libmeg/chat/internal/globals.h"
#include "libmeg/text/printable.h"

namespace meg::chat {
namespace {

using Kind = Node::Kind;

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    const auto found = std::ranges::find(scope->names, name, &std::pair<std::string, Value>::first);
    if (found != scope->names.end()) return &found->second;
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  const auto found = std::ranges::find(names, name, &std::pair<std::string, Value>::first);
  if (found != names.end()) {
    found->second = std::move(value);
  } else {
    names.emplace_back(name, std::move(value));
  }
}

Status Interpreter::limit_reached(std::string_view what) {
  return make_error(StatusCode::kResourceExhausted, "the template {}", what);
}

Status Interpreter::charge(size_t values, size_t bytes) {
  if (bytes > kMaxText) return limit_reached("makes a text of more than 64 MiB");
  work_ += values + bytes / kBytesPerWork;
  if (work_ > kMaxWork) return limit_reached("takes too many steps");
  return {};
}

Result<std::string> Interpreter::render(std::vector<std::pair<std::string, Value>> variables) {
  // Variables are outside of what the template sets, as Jinja's context is.
  const auto outer = std::make_shared<Scope>(Scope{nullptr, std::move(variables)});
  const auto scope = std::make_shared<Scope>(Scope{outer, {}});
  std::string out;
  const Result<Flow> flow = execute_all(statements_, scope, out);
  if (!flow.has_value()) return flow.error();
  return out;
}

Result<Interpreter::Flow> Interpreter::execute_all(std::span<const NodePtr> nodes,
                                                   const ScopePtr& scope, std::string& out) {
  for (const NodePtr& node : nodes) {
    MEG_ASSIGN_OR_RETURN(const Flow flow, execute(*node, scope, out));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Node& node, const ScopePtr& scope,
                                               std::string& out) {
  const Depth depth(depth_);
  if (depth_ > kMaxDepth) return limit_reached("has too many things inside each other");
  MEG_RETURN_IF_ERROR(charge(1));
  switch (node.kind) {
    case Kind::kData:
      MEG_RETURN_IF_ERROR(print(node.text, out));
      return Flow::kNext;
    case Kind::kPrint: {
      MEG_ASSIGN_OR_RETURN(const Value value, evaluate(*node.children[0], scope));
      MEG_RETURN_IF_ERROR(print(value.str(), out));
      return Flow::kNext;
    }
    case Kind::kIf: {
      MEG_ASSIGN_OR_RETURN(const Value test, evaluate(*node.children[0], scope));
      return execute_all(test.is_true() ? node.body : node.otherwise, scope, out);
    }
    case Kind::kFor:
      return execute_for(node, scope, out);
    case Kind::kSet: {
      MEG_ASSIGN_OR_RETURN(Value value, evaluate(*node.children[1], scope));
      MEG_RETURN_IF_ERROR(assign(*node.children[0], std::move(value), scope));
      return Flow::kNext;
    }
    case Kind::kSetBlock: {
      MEG_ASSIGN_OR_RETURN(std::string text, captured(node, scope));
      Value value = Value::text(std::move(text));
      if (node.children[1] != nullptr) {
        MEG_ASSIGN_OR_RETURN(value, evaluate_filter(*node.children[1], std::move(value), scope));
      }
      MEG_RETURN_IF_ERROR(assign(*node.children[0], std::move(value), scope));
      return Flow::kNext;
    }
    case Kind::kMacro: {
      MEG_ASSIGN_OR_RETURN(Value macro, make_macro(node, 0, scope));
      scope->set(node.text, std::move(macro));
      return Flow::kNext;
    }
    case Kind::kCallBlock: {
      const Node& call = *node.children[0];
      MEG_ASSIGN_OR_RETURN(const Value function, evaluate(*call.children[0], scope));
      MEG_ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(call, scope));
      MEG_ASSIGN_OR_RETURN(Value caller, make_macro(node, 1, scope));
      arguments.keywords.emplace_back("caller", std::move(caller));
      if (function.callable() == nullptr) return type_error("a call", "a macro", function);
      MEG_ASSIGN_OR_RETURN(const Value value, function.callable()->call(std::move(arguments)));
      MEG_RETURN_IF_ERROR(print(value.str(), out));
      return Flow::kNext;
    }
    case Kind::kFilterBlock: {
      MEG_ASSIGN_OR_RETURN(std::string text, captured(node, scope));
      MEG_ASSIGN_OR_RETURN(const Value value,
                           evaluate_filter(*node.children[0], Value::text(std::move(text)), scope));
      MEG_RETURN_IF_ERROR(print(value.str(), out));
      return Flow::kNext;
    }
    case Kind::kWith:
      MEG_RETURN_IF_ERROR(execute_with(node, scope, out));
      return Flow::kNext;
    case Kind::kGeneration:
      MEG_RETURN_IF_ERROR(execute_generation(node, scope, out));
      return Flow::kNext;
    case Kind::kBreak:
      return Flow::kBreak;
    default:
      return Flow::kContinue;
  }
}

Status Interpreter::print(std::string_view text, std::string& out) {
  MEG_RETURN_IF_ERROR(charge(1, text.size()));
  if (out.size() + text.size() > kMaxText) return limit_reached("makes a text of more than 64 MiB");
  out += text;
  return {};
}

/// What the body of a node prints, in a scope of its own.
Result<std::string> Interpreter::captured(const Node& node, const ScopePtr& scope) {
  const Depth capture(captures_);
  std::string text;
  const auto inner = std::make_shared<Scope>(Scope{scope, {}});
  const Result<Flow> flow = execute_all(node.body, inner, text);
  if (!flow.has_value()) return flow.error();
  return text;
}

Status Interpreter::execute_generation(const Node& node, const ScopePtr& scope, std::string& out) {
  if (captures_ > 0) {
    return make_error(StatusCode::kUnsupported,
                      "line {}: generation inside a macro or another block is not supported",
                      node.line);
  }
  MEG_ASSIGN_OR_RETURN(const std::string text, captured(node, scope));
  const size_t begin = out.size();
  MEG_RETURN_IF_ERROR(print(text, out));
  generated_.emplace_back(begin, out.size());
  return {};
}

Status Interpreter::execute_with(const Node& node, const ScopePtr& scope, std::string& out) {
  const auto inner = std::make_shared<Scope>(Scope{scope, {}});
  for (size_t i = 0; i < node.children.size(); i += 2) {
    MEG_ASSIGN_OR_RETURN(Value value, evaluate(*node.children[i + 1], scope));
    MEG_RETURN_IF_ERROR(assign(*node.children[i], std::move(value), inner));
  }
  const Status status = execute_all(node.body, inner, out).status();
  return status;
}

Result<std::vector<Value>> Interpreter::looped_items(const Node& node, const ScopePtr& scope) {
  MEG_ASSIGN_OR_RETURN(const Value iterated, evaluate(*node.children[1], scope));
  MEG_ASSIGN_OR_RETURN(std::vector<Value> items, items_of(iterated));
  MEG_RETURN_IF_ERROR(charge(items.size()));
  if (node.children[2] == nullptr) return items;
  std::vector<Value> kept;
  const auto inner = std::make_shared<Scope>(Scope{scope, {}});
  for (Value& item : items) {
    MEG_RETURN_IF_ERROR(assign(*node.children[0], item, inner));
    MEG_ASSIGN_OR_RETURN(const Value test, evaluate(*node.children[2], inner));
    if (test.is_true()) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Interpreter::Flow> Interpreter::execute_for(const Node& node, const ScopePtr& scope,
                                                   std::string& out) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> items, looped_items(node, scope));
  if (items.empty()) {
    return execute_all(node.otherwise, std::make_shared<Scope>(Scope{scope, {}}), out);
  }
  const auto last_changed = std::make_shared<std::vector<Value>>();
  for (size_t i = 0; i < items.size(); ++i) {
    const auto inner = std::make_shared<Scope>(Scope{scope, {}});
    MEG_RETURN_IF_ERROR(charge(16));
    if (node.names_loop) inner->set("loop", loop_state(items, i, last_changed));
    MEG_RETURN_IF_ERROR(assign(*node.children[0], items[i], inner));
    const Result<Flow> flow = execute_all(node.body, inner, out);
    if (!flow.has_value()) return flow.error();
    if (*flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Status Interpreter::assign(const Node& target, Value value, const ScopePtr& scope) {
  if (target.kind == Kind::kName) {
    scope->set(target.text, std::move(value));
    return {};
  }
  if (target.kind == Kind::kAttribute) {
    MEG_ASSIGN_OR_RETURN(const Value of, evaluate(*target.children[0], scope));
    if (of.object() == nullptr) {
      return type_error(fmt::format("line {}: set", target.line), "a namespace", of);
    }
    of.object()->set(Value::text(target.text), std::move(value));
    return {};
  }
  MEG_ASSIGN_OR_RETURN(std::vector<Value> items, items_of(value));
  if (items.size() != target.children.size()) {
    return make_error(StatusCode::kInvalidArgument, "line {}: expected {} values, found {}",
                      target.line, target.children.size(), items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    MEG_RETURN_IF_ERROR(assign(*target.children[i], std::move(items[i]), scope));
  }
  return {};
}

/// first_default: the child that is the default of the first parameter that has one.
Result<Value> Interpreter::make_macro(const Node& node, size_t first_default,
                                      const ScopePtr& scope) {
  // The scope holds the macro. If the macro held the scope, neither would be freed.
  const auto call = [this, &node, first_default,
                     outer = std::weak_ptr(scope)](Arguments arguments) -> Result<Value> {
    const ScopePtr around = outer.lock();
    if (around == nullptr) {
      return make_error(StatusCode::kUnsupported,
                        "line {}: this macro is called outside of the block that defines it",
                        node.line);
    }
    const auto inner = std::make_shared<Scope>(Scope{around, {}});
    for (auto keyword = arguments.keywords.begin(); keyword != arguments.keywords.end();) {
      if (keyword->first != "caller") {
        ++keyword;
        continue;
      }
      inner->set("caller", std::move(keyword->second));
      keyword = arguments.keywords.erase(keyword);
    }
    const size_t without_default = node.names.size() - (node.children.size() - first_default);
    if (arguments.positional.size() > node.names.size()) {
      return make_error(StatusCode::kInvalidArgument,
                        "macro {}: expected at most {} arguments, found {}",
                        text::printable(node.text), node.names.size(), arguments.positional.size());
    }
    for (size_t i = 0; i < node.names.size(); ++i) {
      Value value = Value::undefined(fmt::format("parameter '{}' was not provided", node.names[i]));
      const auto keyword = std::ranges::find(arguments.keywords, node.names[i],
                                             &std::pair<std::string, Value>::first);
      if (i < arguments.positional.size()) {
        value = std::move(arguments.positional[i]);
      } else if (keyword != arguments.keywords.end()) {
        value = std::move(keyword->second);
        arguments.keywords.erase(keyword);
      } else if (i >= without_default) {
        MEG_ASSIGN_OR_RETURN(value,
                             evaluate(*node.children[first_default + i - without_default], inner));
      }
      inner->set(node.names[i], std::move(value));
    }
    if (!arguments.keywords.empty()) {
      return make_error(StatusCode::kInvalidArgument, "macro {}: unexpected argument {}",
                        text::printable(node.text), text::printable(arguments.keywords[0].first));
    }
    MEG_ASSIGN_OR_RETURN(std::string text, captured(node, inner));
    return Value::text(std::move(text));
  };
  return Value::function(node.text.empty() ? "caller" : node.text, call);
}

}  // namespace meg::chat
