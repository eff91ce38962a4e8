// Jinja's tests: jinja2/tests.py.

#include <algorithm>
#include <cmath>
#include <map>

#include "libmeg/chat/internal/filters.h"
#include "libmeg/chat/internal/interpreter.h"
#include "libmeg/chat/internal/python_functions.h"
#include "libmeg/chat/internal/text_functions.h"
#include "libmeg/text/printable.h"

namespace meg::chat {
namespace {

using Test = Result<bool> (*)(Interpreter&, const Value&, Arguments);
using A = Arguments;

Result<bool> is_in(Interpreter& interpreter, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("in", std::move(arguments), {"seq"}, 1));
  const Value& container = given[0];
  if (const Text* const text = container.text()) {
    if (value.text() == nullptr) return type_error("in", "a str in a str", value);
    return text->text.find(value.text()->text) != std::string::npos;
  }
  if (const Dict* const dict = container.dict_content(); dict != nullptr && !dict->is_object) {
    MEG_RETURN_IF_ERROR(interpreter.charge(dict->items.size() / 16));
    MEG_RETURN_IF_ERROR(check_key(value));
    return dict->find(value) != nullptr;
  }
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(container));
  return std::ranges::find(items, value) != items.end();
}

/// value < other and the like.
Result<bool> ordered(const Value& value, A arguments, bool (*holds)(int)) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("a test", std::move(arguments), {"other"}, 1));
  MEG_ASSIGN_OR_RETURN(const int order, compare(value, given[0]));
  return holds(order);
}

Result<bool> equals(const Value& value, A arguments, bool wanted) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("a test", std::move(arguments), {"other"}, 1));
  return (value == given[0]) == wanted;
}

/// value % by == rest, where `by` may be the argument.
Result<bool> divisible(const Value& value, A arguments, std::optional<double> by, double rest) {
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("divisibleby", std::move(arguments), {"num"}, by ? 0 : 1));
  const std::optional<double> divisor = by ? by : given[0].number();
  if (!value.number()) return type_error("divisibleby, odd, even", "a number", value);
  if (!divisor || *divisor == 0) return type_error("divisibleby", "a number but 0", given[0]);
  double found = std::fmod(*value.number(), *divisor);
  if (found != 0 && (found < 0) != (*divisor < 0)) found += *divisor;
  return found == rest;
}

Result<bool> same_as(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("sameas", std::move(arguments), {"other"}, 1));
  const bool is_single = value.is_none() || value.boolean() != nullptr;
  const bool other_is = given[0].is_none() || given[0].boolean() != nullptr;
  if (!is_single && !other_is) {
    return Status(StatusCode::kUnsupported, "sameas: expected true, false or none");
  }
  return value.content().index() == given[0].content().index() && value == given[0];
}

/// Tests without arguments.
const std::map<std::string, Result<bool> (*)(const Value&), std::less<>>& properties() {
  using V = Value;
  using R = Result<bool>;
  static const std::map<std::string, R (*)(const V&), std::less<>> properties = {
      {"defined", [](const V& v) -> R { return !v.is_undefined(); }},
      {"undefined", [](const V& v) -> R { return v.is_undefined(); }},
      {"none", [](const V& v) -> R { return v.is_none(); }},
      {"boolean", [](const V& v) -> R { return v.boolean() != nullptr; }},
      {"true", [](const V& v) -> R { return v.boolean() != nullptr && *v.boolean(); }},
      {"false", [](const V& v) -> R { return v.boolean() != nullptr && !*v.boolean(); }},
      {"integer", [](const V& v) -> R { return v.integer() && v.boolean() == nullptr; }},
      {"float", [](const V& v) -> R { return v.real() != nullptr; }},
      {"number", [](const V& v) -> R { return v.number().has_value(); }},
      {"string", [](const V& v) -> R { return v.text() != nullptr; }},
      {"mapping",
       [](const V& v) -> R { return v.dict_content() != nullptr && v.object() == nullptr; }},
      {"iterable", [](const V& v) -> R { return items_of(v).has_value(); }},
      {"sequence",
       [](const V& v) -> R {
         return v.is_undefined() || v.text() != nullptr || v.sequence() != nullptr ||
                (v.dict_content() != nullptr && v.object() == nullptr);
       }},
      {"callable", [](const V& v) -> R { return v.callable() != nullptr; }},
      {"lower", [](const V& v) -> R { return is_of_case(v.str(), false); }},
      {"upper", [](const V& v) -> R { return is_of_case(v.str(), true); }},
      {"filter", [](const V& v) -> R { return find_filter(v.str()) != nullptr; }},
  };
  return properties;
}

const std::map<std::string, Test, std::less<>>& tests() {
  using I = Interpreter;
  using V = Value;
  const auto eq = [](I&, const V& v, A a) { return equals(v, std::move(a), true); };
  const auto ne = [](I&, const V& v, A a) { return equals(v, std::move(a), false); };
  const auto lt = [](I&, const V& v, A a) {
    return ordered(v, std::move(a), [](int o) { return o < 0; });
  };
  const auto le = [](I&, const V& v, A a) {
    return ordered(v, std::move(a), [](int o) { return o <= 0; });
  };
  const auto gt = [](I&, const V& v, A a) {
    return ordered(v, std::move(a), [](int o) { return o > 0; });
  };
  const auto ge = [](I&, const V& v, A a) {
    return ordered(v, std::move(a), [](int o) { return o >= 0; });
  };
  static const std::map<std::string, Test, std::less<>> tests = {
      {"sameas", same_as},
      {"in", is_in},
      {"divisibleby",
       [](I&, const V& v, A a) { return divisible(v, std::move(a), std::nullopt, 0); }},
      {"odd", [](I&, const V& v, A a) { return divisible(v, std::move(a), 2, 1); }},
      {"even", [](I&, const V& v, A a) { return divisible(v, std::move(a), 2, 0); }},
      {"eq", eq},
      {"equalto", eq},
      {"==", eq},
      {"ne", ne},
      {"!=", ne},
      {"lt", lt},
      {"lessthan", lt},
      {"<", lt},
      {"le", le},
      {"<=", le},
      {"gt", gt},
      {"greaterthan", gt},
      {">", gt},
      {"ge", ge},
      {">=", ge},
  };
  return tests;
}

}  // namespace

Result<bool> Interpreter::test(const std::string& name, const Value& value, Arguments arguments) {
  MEG_RETURN_IF_ERROR(charge(1));
  if (const auto property = properties().find(name); property != properties().end()) {
    MEG_RETURN_IF_ERROR(bound(name, std::move(arguments), {}).status());
    return property->second(value);
  }
  const auto found = tests().find(name);
  if (found == tests().end()) {
    return make_error(StatusCode::kUnsupported, "no test named {}", text::printable(name));
  }
  return found->second(*this, value, std::move(arguments));
}

}  // namespace meg::chat
