// Interpreter: expressions.

#include <fmt/format.h>

#include <algorithm>

#include "libmeg/chat/internal/arithmetic.h"
#include "libmeg/chat/internal/globals.h"
#include "libmeg/chat/internal/interpreter.h"
#include "libmeg/chat/internal/python_functions.h"
#include "libmeg/chat/internal/text_functions.h"
#include "libmeg/text/printable.h"

namespace meg::chat {
namespace {

using Kind = Node::Kind;

/// Which class Jinja's messages name.
std::string object_name(const Value& value) {
  return fmt::format("'{} object'", value.type_name());
}

}  // namespace

Result<Value> Interpreter::evaluate(const Node& node, const ScopePtr& scope) {
  const Depth depth(depth_);
  if (depth_ > kMaxDepth) return limit_reached("has too many things inside each other");
  MEG_RETURN_IF_ERROR(charge(1));
  Result<Value> value = evaluate_here(node, scope);
  if (value.has_value() || value.error().message().starts_with("line ")) return value;
  return value.error().with_prefix(fmt::format("line {}", node.line));
}

Result<std::vector<Value>> Interpreter::evaluate_all(std::span<const NodePtr> nodes,
                                                     const ScopePtr& scope) {
  std::vector<Value> values;
  for (const NodePtr& node : nodes) {
    MEG_ASSIGN_OR_RETURN(Value value, evaluate(*node, scope));
    values.push_back(std::move(value));
  }
  return values;
}

/// Those of a call, filter or test: after its first child.
Result<Arguments> Interpreter::evaluate_arguments(const Node& node, const ScopePtr& scope) {
  Arguments arguments;
  MEG_ASSIGN_OR_RETURN(arguments.positional,
                       evaluate_all(std::span(node.children).subspan(1), scope));
  for (const auto& [name, expression] : node.keywords) {
    MEG_ASSIGN_OR_RETURN(Value value, evaluate(*expression, scope));
    arguments.keywords.emplace_back(name, std::move(value));
  }
  return arguments;
}

Result<Value> Interpreter::look_up(const std::string& name, const ScopePtr& scope) const {
  if (const Value* const value = scope->find(name)) return *value;
  if (const Value* const value = find_global(name)) return *value;
  return Value::undefined(fmt::format("'{}' is undefined", name));
}

Result<Value> Interpreter::evaluate_here(const Node& node, const ScopePtr& scope) {
  const auto child = [&](size_t i) { return evaluate(*node.children[i], scope); };
  switch (node.kind) {
    case Kind::kLiteral:
      return node.value;
    case Kind::kName:
      return look_up(node.text, scope);
    case Kind::kList:
    case Kind::kTuple: {
      MEG_ASSIGN_OR_RETURN(std::vector<Value> items, evaluate_all(node.children, scope));
      return Value::list(std::move(items), node.kind == Kind::kTuple);
    }
    case Kind::kDict: {
      auto dict = std::make_shared<Dict>();
      for (size_t i = 0; i < node.children.size(); i += 2) {
        MEG_ASSIGN_OR_RETURN(Value key, child(i));
        MEG_ASSIGN_OR_RETURN(Value value, child(i + 1));
        MEG_RETURN_IF_ERROR(check_key(key));
        MEG_RETURN_IF_ERROR(charge(dict->items.size()));
        dict->set(std::move(key), std::move(value));
      }
      return Value(std::move(dict));
    }
    case Kind::kAttribute: {
      MEG_ASSIGN_OR_RETURN(const Value of, child(0));
      return attribute_of(of, node.text);
    }
    case Kind::kItem: {
      MEG_ASSIGN_OR_RETURN(const Value of, child(0));
      MEG_ASSIGN_OR_RETURN(const Value key, child(1));
      if (of.text() != nullptr) MEG_RETURN_IF_ERROR(charge(1, of.text()->text.size()));
      if (of.dict_content() != nullptr) {
        MEG_RETURN_IF_ERROR(charge(of.dict_content()->items.size() / 16));
      }
      return item_of(of, key);
    }
    case Kind::kSlice:
      return evaluate_slice(node, scope);
    case Kind::kCall: {
      MEG_ASSIGN_OR_RETURN(const Value function, child(0));
      MEG_ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(node, scope));
      if (function.callable() == nullptr) return type_error("a call", "a function", function);
      MEG_ASSIGN_OR_RETURN(Value value, function.callable()->call(std::move(arguments)));
      MEG_RETURN_IF_ERROR(charge(value.sequence() != nullptr ? value.sequence()->items.size() : 1,
                                 value.text() != nullptr ? value.text()->text.size() : 0));
      return value;
    }
    case Kind::kFilter: {
      MEG_ASSIGN_OR_RETURN(Value value, child(0));
      MEG_ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(node, scope));
      return filter(node.text, value, std::move(arguments));
    }
    case Kind::kTest: {
      MEG_ASSIGN_OR_RETURN(const Value value, child(0));
      MEG_ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(node, scope));
      MEG_ASSIGN_OR_RETURN(const bool answer, test(node.text, value, std::move(arguments)));
      return Value(answer);
    }
    case Kind::kNot: {
      MEG_ASSIGN_OR_RETURN(const Value value, child(0));
      return Value(!value.is_true());
    }
    case Kind::kNegative:
    case Kind::kPositive: {
      MEG_ASSIGN_OR_RETURN(const Value value, child(0));
      const bool is_negative = node.kind == Kind::kNegative;
      if (value.integer()) {
        return arithmetic(is_negative ? "-" : "+", Value(int64_t{0}), Value(*value.integer()));
      }
      if (value.real() == nullptr) return type_error("a sign", "a number", value);
      return Value(is_negative ? -*value.real() : *value.real());
    }
    case Kind::kBinary: {
      MEG_ASSIGN_OR_RETURN(const Value a, child(0));
      MEG_ASSIGN_OR_RETURN(const Value b, child(1));
      return binary(node.text, a, b);
    }
    case Kind::kCompare:
      return evaluate_compare(node, scope);
    case Kind::kAnd:
    case Kind::kOr: {
      MEG_ASSIGN_OR_RETURN(Value left, child(0));
      if (left.is_true() == (node.kind == Kind::kOr)) return left;
      return child(1);
    }
    case Kind::kConcat: {
      std::string text;
      for (size_t i = 0; i < node.children.size(); ++i) {
        MEG_ASSIGN_OR_RETURN(const Value part, child(i));
        MEG_RETURN_IF_ERROR(print(part.str(), text));
      }
      return Value::text(std::move(text));
    }
    case Kind::kConditional: {
      MEG_ASSIGN_OR_RETURN(const Value test, child(0));
      if (test.is_true()) return child(1);
      if (node.children[2] != nullptr) return child(2);
      return Value::undefined(
          fmt::format("the inline if-expression on line {} evaluated to false and no else section "
                      "was defined",
                      node.line));
    }
    default:
      return Status(StatusCode::kInternal, "a statement where an expression is expected");
  }
}

Result<Value> Interpreter::evaluate_filter(const Node& node, Value value, const ScopePtr& scope) {
  if (node.children[0] != nullptr) {
    MEG_ASSIGN_OR_RETURN(value, evaluate_filter(*node.children[0], std::move(value), scope));
  }
  MEG_ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(node, scope));
  return filter(node.text, value, std::move(arguments));
}

Result<Value> Interpreter::evaluate_slice(const Node& node, const ScopePtr& scope) {
  MEG_ASSIGN_OR_RETURN(const Value of, evaluate(*node.children[0], scope));
  std::optional<int64_t> parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (node.children[i + 1] == nullptr) continue;
    MEG_ASSIGN_OR_RETURN(const Value part, evaluate(*node.children[i + 1], scope));
    if (part.is_none()) continue;
    if (!part.integer()) return type_error("a slice", "an int", part);
    parts[i] = *part.integer();
  }
  if (of.text() == nullptr && of.sequence() == nullptr) {
    return type_error("a slice", "a str or list", of);
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(of));
  MEG_RETURN_IF_ERROR(charge(items.size()));
  const int64_t size = std::ssize(items), step = parts[2].value_or(1);
  if (step == 0) return Status(StatusCode::kInvalidArgument, "a slice: the step is 0");
  // Where a slice may begin and end: PySlice_AdjustIndices.
  const int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? size - 1 : size;
  const auto placed = [&](const std::optional<int64_t>& part, int64_t otherwise) {
    if (!part) return otherwise;
    return std::clamp(*part < 0 ? *part + size : *part, lowest, highest);
  };
  const int64_t begin = placed(parts[0], step < 0 ? highest : lowest);
  const int64_t end = placed(parts[1], step < 0 ? lowest : highest);
  std::vector<Value> kept;
  for (int64_t i = begin; step < 0 ? i > end : i < end;) {
    kept.push_back(items[static_cast<size_t>(i)]);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (of.sequence() != nullptr) return Value::list(std::move(kept), of.sequence()->is_tuple);
  std::string text;
  for (const Value& one : kept) text += one.text()->text;
  return Value::text(std::move(text));
}

Result<Value> Interpreter::evaluate_compare(const Node& node, const ScopePtr& scope) {
  MEG_ASSIGN_OR_RETURN(Value left, evaluate(*node.children[0], scope));
  for (size_t i = 0; i < node.names.size(); ++i) {
    const std::string& name = node.names[i];
    MEG_ASSIGN_OR_RETURN(Value right, evaluate(*node.children[i + 1], scope));
    MEG_RETURN_IF_ERROR(charge(right.sequence() != nullptr ? right.sequence()->items.size() : 1));
    bool holds = false;
    if (name == "==" || name == "!=") {
      holds = (left == right) == (name == "==");
    } else if (name == "in" || name == "not in") {
      MEG_ASSIGN_OR_RETURN(const bool is_in,
                           test("in", left, {.positional = {right}, .keywords = {}}));
      holds = is_in == (name == "in");
    } else {
      MEG_ASSIGN_OR_RETURN(const int order, compare(left, right));
      holds = name == "<"    ? order < 0
              : name == "<=" ? order <= 0
              : name == ">"  ? order > 0
                             : order >= 0;
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::binary(std::string_view name, const Value& a, const Value& b) {
  if (a.is_undefined()) return undefined_error(a);
  if (a.text() != nullptr && name == "%") {
    MEG_ASSIGN_OR_RETURN(std::string text, percent_formatted(a.text()->text, b));
    MEG_RETURN_IF_ERROR(charge(1, text.size()));
    return Value::text(std::move(text));
  }
  if (b.is_undefined()) return undefined_error(b);
  if (a.number() && b.number()) return arithmetic(name, a, b);
  if (name == "+" && a.text() != nullptr && b.text() != nullptr) {
    if (a.text()->is_markup || b.text()->is_markup) {
      return Status(StatusCode::kUnsupported,
                    "a text that `safe` or `escape` made: only ~ and printing are supported");
    }
    MEG_RETURN_IF_ERROR(charge(1, a.text()->text.size() + b.text()->text.size()));
    return Value::text(a.text()->text + b.text()->text);
  }
  const Sequence *const left = a.sequence(), *const right = b.sequence();
  if (name == "+" && left != nullptr && right != nullptr && left->is_tuple == right->is_tuple) {
    std::vector<Value> items = left->items;
    items.insert(items.end(), right->items.begin(), right->items.end());
    MEG_RETURN_IF_ERROR(charge(items.size()));
    return Value::list(std::move(items), left->is_tuple);
  }
  const Value& repeated = a.integer() ? b : a;
  const Value& times = a.integer() ? a : b;
  if (name == "*" && times.integer() &&
      (repeated.text() != nullptr || repeated.sequence() != nullptr)) {
    const auto count = static_cast<size_t>(std::max<int64_t>(0, *times.integer()));
    if (const Text* const text = repeated.text()) {
      if (count > 0 && text->text.size() > kMaxText / count) return charge(1, kMaxText + 1);
      MEG_RETURN_IF_ERROR(charge(1, text->text.size() * count));
      std::string made;
      for (size_t i = 0; i < count; ++i) made += text->text;
      return Value::text(std::move(made));
    }
    const std::vector<Value>& items = repeated.sequence()->items;
    if (count > 0 && items.size() > kMaxWork / count) return charge(kMaxWork + 1);
    MEG_RETURN_IF_ERROR(charge(items.size() * count));
    std::vector<Value> made;
    for (size_t i = 0; i < count; ++i) made.insert(made.end(), items.begin(), items.end());
    return Value::list(std::move(made), repeated.sequence()->is_tuple);
  }
  return make_error(StatusCode::kInvalidArgument, "{}: {} and {} do not go together", name,
                    a.type_name(), b.type_name());
}

Result<Value> Interpreter::item_of(const Value& value, const Value& key) {
  if (value.is_undefined()) return undefined_error(value);
  if (const Dict* const dict = value.dict_content()) {
    if (const Value* const found = dict->find(key)) return *found;
  } else if (key.integer() && (value.sequence() != nullptr || value.text() != nullptr)) {
    const Sequence* const items = value.sequence();
    const int64_t size =
        items != nullptr ? std::ssize(items->items) : length_of(value.text()->text);
    int64_t at = *key.integer();
    if (at < 0) at += size;
    if (at >= 0 && at < size) {
      if (items != nullptr) return items->items[static_cast<size_t>(at)];
      const std::string& text = value.text()->text;
      const size_t begin = offset_of(text, at);
      return Value::text(text.substr(begin, offset_of(std::string_view(text).substr(begin), 1)));
    }
  }
  if (key.text() != nullptr) {
    if (std::optional<Value> method = find_method(value, key.text()->text))
      return *std::move(method);
    return Value::undefined(fmt::format("{} has no attribute {}", object_name(value), key.repr()));
  }
  return Value::undefined(fmt::format("{} has no element {}", object_name(value), key.repr()));
}

Result<Value> Interpreter::attribute_of(const Value& value, const std::string& name) {
  if (value.is_undefined()) return undefined_error(value);
  if (name.starts_with("__")) {
    return make_error(StatusCode::kUnsupported, "access to attribute '{}' of {} is unsafe", name,
                      object_name(value));
  }
  if (std::optional<Value> method = find_method(value, name)) return *std::move(method);
  return item_of(value, Value::text(name));
}

}  // namespace meg::chat