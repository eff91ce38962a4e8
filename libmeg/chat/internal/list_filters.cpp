// Jinja's filters of lists and dicts: jinja2/filters.py.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "libmeg/chat/internal/filters.h"
#include "libmeg/chat/internal/interpreter.h"
#include "libmeg/chat/internal/python_functions.h"
#include "libmeg/chat/internal/text_functions.h"

namespace meg::chat {
namespace {

using A = Arguments;

/// The value at "a.b.0" below a value.
Result<Value> at_path(const Value& value, const Value& path) {
  if (path.integer()) return Interpreter::item_of(value, path);
  if (path.text() == nullptr) return type_error("attribute", "a str or int", path);
  Value found = value;
  std::string_view rest = path.text()->text;
  for (;;) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    const bool is_number = !part.empty() && part.size() < 10 &&
                           part.find_first_not_of("0123456789") == std::string::npos;
    MEG_ASSIGN_OR_RETURN(
        found, Interpreter::item_of(found, is_number ? Value(static_cast<int64_t>(std::stol(part)))
                                                     : Value::text(part)));
    if (dot == std::string_view::npos) return found;
    rest.remove_prefix(dot + 1);
  }
}

/// What values are compared by: an attribute, if any, in lower case unless the case counts.
Result<Value> sort_key(const Value& value, const Value& attribute, bool case_counts) {
  Value key = value;
  if (!attribute.is_undefined() && !attribute.is_none()) {
    MEG_ASSIGN_OR_RETURN(key, at_path(value, attribute));
  }
  if (case_counts || key.text() == nullptr) return key;
  return Value::text(lower(key.text()->text));
}

/// Items and their keys.
using Keyed = std::vector<std::pair<Value, Value>>;

Result<Keyed> with_keys(const std::vector<Value>& items, const Value& attribute, bool case_counts) {
  Keyed keyed;
  for (const Value& item : items) {
    MEG_ASSIGN_OR_RETURN(Value key, sort_key(item, attribute, case_counts));
    keyed.emplace_back(std::move(key), item);
  }
  return keyed;
}

Result<std::vector<Value>> sorted(Keyed keyed, bool reverse) {
  Status status;
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    const Result<int> order = reverse ? compare(b.first, a.first) : compare(a.first, b.first);
    if (order.has_value()) return *order < 0;
    status = order.error();
    return false;
  });
  if (!status.ok()) return status;
  std::vector<Value> items;
  for (auto& [_, item] : keyed) items.push_back(std::move(item));
  return items;
}

Result<Value> length_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("length", std::move(arguments), {}).status());
  if (const Text* const text = value.text()) return Value(length_of(text->text));
  if (const Sequence* const items = value.sequence()) return Value(std::ssize(items->items));
  if (const Dict* const dict = value.dict_content(); dict != nullptr && !dict->is_object) {
    return Value(std::ssize(dict->items));
  }
  if (value.is_undefined()) return Value(int64_t{0});
  return type_error("length", "a str, list or dict", value);
}

Result<Value> first_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("first", std::move(arguments), {}).status());
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Result<Value> last_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("last", std::move(arguments), {}).status());
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Result<Value> join_filter(Interpreter& interpreter, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("join", std::move(arguments), {"d", "attribute"}));
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  const std::string separator = given[0].str();
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (!given[1].is_undefined() && !given[1].is_none()) {
      MEG_ASSIGN_OR_RETURN(item, at_path(item, given[1]));
    }
    if (i > 0) text += separator;
    text += item.str();
    MEG_RETURN_IF_ERROR(interpreter.charge(1, text.size()));
  }
  return Value::text(std::move(text));
}

Result<Value> list_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("list", std::move(arguments), {}).status());
  MEG_ASSIGN_OR_RETURN(auto items, items_of(value));
  return Value::list(std::move(items));
}

Result<Value> reverse_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("reverse", std::move(arguments), {}).status());
  MEG_ASSIGN_OR_RETURN(auto items, items_of(value));
  std::ranges::reverse(items);
  if (value.text() == nullptr) return Value::list(std::move(items));
  std::string text;
  for (const Value& item : items) text += item.text()->text;
  return Value::text(std::move(text));
}

Result<Value> items_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("items", std::move(arguments), {}).status());
  if (value.is_undefined()) return Value::list({});
  const std::optional<Value> method =
      value.dict_content() != nullptr ? find_method(value, "items") : std::nullopt;
  if (!method) return type_error("items", "a dict", value);
  return method->callable()->call({});
}

Result<Value> dictsort_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("dictsort", std::move(arguments),
                                               {"case_sensitive", "by", "reverse"}));
  if (value.dict_content() == nullptr || value.object() != nullptr) {
    return type_error("dictsort", "a dict", value);
  }
  const bool by_value = given[1].str() == "value";
  if (!by_value && !given[1].is_undefined() && given[1].str() != "key") {
    return Status(StatusCode::kInvalidArgument, "dictsort: expected by='key' or 'value'");
  }
  Keyed keyed;
  for (const auto& [key, item] : value.dict_content()->items) {
    MEG_ASSIGN_OR_RETURN(Value by, sort_key(by_value ? item : key, Value(), given[0].is_true()));
    keyed.emplace_back(std::move(by), Value::list({key, item}, /*is_tuple=*/true));
  }
  MEG_ASSIGN_OR_RETURN(auto items, sorted(std::move(keyed), given[2].is_true()));
  return Value::list(std::move(items));
}

Result<Value> sort_filter(Interpreter& interpreter, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("sort", std::move(arguments),
                                               {"reverse", "case_sensitive", "attribute"}));
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  MEG_RETURN_IF_ERROR(interpreter.charge(items.size() * 16));
  if (given[2].text() != nullptr && given[2].text()->text.find(',') != std::string::npos) {
    return Status(StatusCode::kUnsupported, "sort: expected one attribute");
  }
  MEG_ASSIGN_OR_RETURN(Keyed keyed, with_keys(items, given[2], given[1].is_true()));
  MEG_ASSIGN_OR_RETURN(auto made, sorted(std::move(keyed), given[0].is_true()));
  return Value::list(std::move(made));
}

Result<Value> unique_filter(Interpreter& interpreter, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("unique", std::move(arguments), {"case_sensitive", "attribute"}));
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  MEG_ASSIGN_OR_RETURN(Keyed keyed, with_keys(items, given[1], given[0].is_true()));
  std::vector<Value> seen, kept;
  for (auto& [key, item] : keyed) {
    MEG_RETURN_IF_ERROR(interpreter.charge(seen.size() + 1));
    MEG_RETURN_IF_ERROR(check_key(key));
    if (std::ranges::find(seen, key) != seen.end()) continue;
    seen.push_back(std::move(key));
    kept.push_back(std::move(item));
  }
  return Value::list(std::move(kept));
}

Result<Value> extreme(const char* name, const Value& value, A arguments, bool greatest) {
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound(name, std::move(arguments), {"case_sensitive", "attribute"}));
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  MEG_ASSIGN_OR_RETURN(const Keyed keyed, with_keys(items, given[1], given[0].is_true()));
  if (keyed.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto* best = &keyed[0];
  for (const auto& one : keyed) {
    MEG_ASSIGN_OR_RETURN(const int order, compare(one.first, best->first));
    if (greatest ? order > 0 : order < 0) best = &one;
  }
  return best->second;
}

Result<Value> sum_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("sum", std::move(arguments), {"attribute", "start"}));
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  int64_t whole = 0;
  double real = 0;
  bool is_real = false;
  const auto add = [&](const Value& item) -> Status {
    if (!item.number()) return type_error("sum", "numbers", item);
    real += *item.number();
    is_real = is_real || !item.integer();
    if (item.integer() && __builtin_add_overflow(whole, *item.integer(), &whole)) {
      return {StatusCode::kOutOfRange, "sum: expected integers of 64 bits"};
    }
    return {};
  };
  if (!given[1].is_undefined()) MEG_RETURN_IF_ERROR(add(given[1]));
  for (Value item : items) {
    if (!given[0].is_undefined() && !given[0].is_none()) {
      MEG_ASSIGN_OR_RETURN(item, at_path(item, given[0]));
    }
    MEG_RETURN_IF_ERROR(add(item));
  }
  if (is_real) return Value(real);
  return Value(whole);
}

Result<Value> map_filter(Interpreter& interpreter, const Value& value, A arguments) {
  if (!value.is_true()) return Value::list({});
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  std::vector<Value> made;
  if (arguments.positional.empty()) {
    MEG_ASSIGN_OR_RETURN(const auto given,
                         bound("map", std::move(arguments), {"attribute", "default"}));
    if (given[0].is_undefined()) {
      return Status(StatusCode::kInvalidArgument, "map: expected a filter or an attribute");
    }
    for (const Value& item : items) {
      MEG_ASSIGN_OR_RETURN(Value found, at_path(item, given[0]));
      made.push_back(found.is_undefined() && !given[1].is_undefined() ? given[1]
                                                                      : std::move(found));
    }
    return Value::list(std::move(made));
  }
  const std::string name = arguments.positional[0].str();
  arguments.positional.erase(arguments.positional.begin());
  for (const Value& item : items) {
    MEG_ASSIGN_OR_RETURN(Value mapped, interpreter.filter(name, item, arguments));
    made.push_back(std::move(mapped));
  }
  return Value::list(std::move(made));
}

/// select, reject, and those by an attribute.
Result<Value> chosen(Interpreter& interpreter, const Value& value, A arguments, bool wanted,
                     bool by_attribute) {
  if (!value.is_true()) return Value::list({});
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  std::vector<Value>& given = arguments.positional;
  Value attribute = Value::undefined("");
  if (by_attribute) {
    if (given.empty())
      return Status(StatusCode::kInvalidArgument, "Missing parameter for attribute name");
    attribute = given[0];
    given.erase(given.begin());
  }
  std::optional<std::string> name;
  if (!given.empty()) {
    name = given[0].str();
    given.erase(given.begin());
  }
  std::vector<Value> kept;
  for (const Value& item : items) {
    Value tested = item;
    if (by_attribute) {
      MEG_ASSIGN_OR_RETURN(tested, at_path(item, attribute));
    }
    bool holds = tested.is_true();
    if (name) {
      MEG_ASSIGN_OR_RETURN(holds, interpreter.test(*name, tested, arguments));
    }
    if (holds == wanted) kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

Result<Value> batch_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("batch", std::move(arguments), {"linecount", "fill_with"}, 1));
  MEG_ASSIGN_OR_RETURN(const int64_t size, integer_or("batch", given[0], 0));
  MEG_ASSIGN_OR_RETURN(const auto items, items_of(value));
  if (size < 1 || size > 1'000'000) {
    return Status(StatusCode::kInvalidArgument, "batch: expected 1 to 1000000 items");
  }
  std::vector<Value> batches;
  for (size_t begin = 0; begin < items.size(); begin += static_cast<size_t>(size)) {
    const size_t end = std::min(items.size(), begin + static_cast<size_t>(size));
    std::vector<Value> batch(items.begin() + static_cast<std::ptrdiff_t>(begin),
                             items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!given[1].is_undefined() && !given[1].is_none())
      batch.resize(static_cast<size_t>(size), given[1]);
    batches.push_back(Value::list(std::move(batch)));
  }
  return Value::list(std::move(batches));
}

}  // namespace

const Filters& list_filters() {
  using I = Interpreter;
  using V = Value;
  static const Filters filters = {
      {"batch", batch_filter},
      {"count", length_filter},
      {"dictsort", dictsort_filter},
      {"first", first_filter},
      {"items", items_filter},
      {"join", join_filter},
      {"last", last_filter},
      {"length", length_filter},
      {"list", list_filter},
      {"map", map_filter},
      {"max", [](I&, const V& v, A a) { return extreme("max", v, std::move(a), true); }},
      {"min", [](I&, const V& v, A a) { return extreme("min", v, std::move(a), false); }},
      {"reject", [](I& i, const V& v, A a) { return chosen(i, v, std::move(a), false, false); }},
      {"rejectattr", [](I& i, const V& v, A a) { return chosen(i, v, std::move(a), false, true); }},
      {"reverse", reverse_filter},
      {"select", [](I& i, const V& v, A a) { return chosen(i, v, std::move(a), true, false); }},
      {"selectattr", [](I& i, const V& v, A a) { return chosen(i, v, std::move(a), true, true); }},
      {"sort", sort_filter},
      {"sum", sum_filter},
      {"unique", unique_filter},
  };
  return filters;
}

}  // namespace meg::chat
