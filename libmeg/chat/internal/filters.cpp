// Jinja's filters and tests: jinja2/filters.py and tests.py.

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "libmeg/chat/internal/interpreter.h"
#include "libmeg/chat/internal/python_functions.h"
#include "libmeg/text/json/python_float.h"
#include "libmeg/text/printable.h"

namespace meg::chat {
namespace {

using Filter = Result<Value> (*)(Interpreter&, const Value&, Arguments);
using Test = Result<bool> (*)(Interpreter&, const Value&, Arguments);
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

Result<Value> default_filter(Interpreter&, const Value& value, A arguments) {
  // What is given may be undefined itself.
  if (arguments.positional.empty()) arguments.positional.push_back(Value::text(""));
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("default", std::move(arguments), {"default_value", "boolean"}));
  if (!value.is_undefined() && (!given[1].is_true() || value.is_true())) return value;
  return given[0];
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

Result<Value> trim_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("trim", std::move(arguments), {"chars"}));
  std::optional<std::string> characters;
  if (!given[0].is_undefined() && !given[0].is_none()) characters = given[0].str();
  return Value::text(std::string(stripped(value.str(), characters, true, true)));
}

Result<Value> replace_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("replace", std::move(arguments), {"old", "new", "count"}, 2));
  MEG_ASSIGN_OR_RETURN(
      const int64_t most,
      integer_or("replace", given[2].is_none() ? Value(int64_t{-1}) : given[2], -1));
  return Value::text(replaced(value.str(), given[0].str(), given[1].str(), most));
}

Result<Value> indent_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("indent", std::move(arguments), {"width", "first", "blank"}));
  std::string indent = given[0].text() != nullptr ? given[0].text()->text : std::string();
  if (given[0].text() == nullptr) {
    MEG_ASSIGN_OR_RETURN(const int64_t width, integer_or("indent", given[0], 4));
    if (width > 1000) return Status(StatusCode::kInvalidArgument, "indent: a width beyond 1000");
    indent.assign(static_cast<size_t>(std::max<int64_t>(0, width)), ' ');
  }
  const std::string text = value.str() + "\n";
  const std::vector<std::string_view> lines = lines_of(text);
  std::string made = given[1].is_true() ? indent : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) made += '\n';
    if (i > 0 && (given[2].is_true() || !lines[i].empty())) made += indent;
    made += lines[i];
  }
  return Value::text(std::move(made));
}

Result<Value> title_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("title", std::move(arguments), {}).status());
  // Words begin after white space and these characters.
  constexpr std::string_view kBorders = "-({[< \t\n\r\f\v";
  const std::string text = value.str();
  std::string made;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && kBorders.find(text[end]) == std::string_view::npos) ++end;
    MEG_ASSIGN_OR_RETURN(const std::string word,
                         capitalized(std::string_view(text).substr(begin, end - begin)));
    made += word;
    if (end < text.size()) made += text[end];
    begin = end + 1;
  }
  return Value::text(std::move(made));
}

Result<Value> int_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("int", std::move(arguments), {"default", "base"}));
  MEG_ASSIGN_OR_RETURN(const int64_t base, integer_or("int", given[1], 10));
  const Value otherwise = given[0].is_undefined() ? Value(int64_t{0}) : given[0];
  if (value.is_undefined()) return undefined_error(value);
  std::optional<double> real = value.number();
  if (value.integer()) return Value(*value.integer());
  if (const Text* const text = value.text()) {
    std::string digits(stripped(text->text, std::nullopt, true, true));
    if (base < 2 || base > 36) return Status(StatusCode::kUnsupported, "int: a base of 2 to 36");
    const bool is_signed = digits.starts_with('-') || digits.starts_with('+');
    if (base != 10 && digits.size() > 1 && digits[is_signed ? 1 : 0] == '0') {
      return Status(StatusCode::kUnsupported, "int: digits with a prefix");
    }
    char* end = nullptr;
    errno = 0;
    const int64_t number = std::strtoll(digits.c_str(), &end, static_cast<int>(base));
    if (!digits.empty() && end == digits.c_str() + digits.size()) {
      if (errno == ERANGE) return Status(StatusCode::kOutOfRange, "int: expected 64 bits");
      return Value(number);
    }
    real = text::parse_python_float(digits);
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  if (std::abs(*real) >= 9.2e18) return Status(StatusCode::kOutOfRange, "int: expected 64 bits");
  return Value(static_cast<int64_t>(*real));
}

Result<Value> float_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("float", std::move(arguments), {"default"}));
  if (value.is_undefined()) return undefined_error(value);
  std::optional<double> number = value.number();
  if (value.text() != nullptr) {
    number = text::parse_python_float(stripped(value.text()->text, std::nullopt, true, true));
  }
  if (number) return Value(*number);
  return given[0].is_undefined() ? Value(0.0) : given[0];
}

Result<Value> round_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("round", std::move(arguments), {"precision", "method"}));
  MEG_ASSIGN_OR_RETURN(const int64_t precision, integer_or("round", given[0], 0));
  const std::string method = given[1].is_undefined() ? "common" : given[1].str();
  if (!value.number()) return type_error("round", "a number", value);
  if (precision < 0 || precision > 15) {
    return Status(StatusCode::kUnsupported, "round: expected a precision of 0 to 15");
  }
  if (method == "common") {
    if (value.integer()) return Value(*value.integer());
    // Exact, and ties go to even digits: as printf and Python do.
    return Value(std::strtod(fmt::format("{:.{}f}", *value.number(), precision).c_str(), nullptr));
  }
  const double power = std::pow(10, static_cast<double>(precision));
  if (method == "ceil") return Value(std::ceil(*value.number() * power) / power);
  if (method == "floor") return Value(std::floor(*value.number() * power) / power);
  return Status(StatusCode::kInvalidArgument, "method must be common, ceil or floor");
}

Result<Value> abs_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("abs", std::move(arguments), {}).status());
  if (value.integer() && *value.integer() != INT64_MIN) return Value(std::abs(*value.integer()));
  if (value.real() != nullptr) return Value(std::abs(*value.real()));
  return type_error("abs", "a number", value);
}

Result<Value> tojson_filter(Interpreter& interpreter, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(
      const auto given,
      bound("tojson", std::move(arguments), {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = given[0].is_true();
  if (!given[1].is_none()) {
    MEG_ASSIGN_OR_RETURN(style.indent, integer_or("tojson", given[1], -1));
    if (style.indent > 1000)
      return Status(StatusCode::kInvalidArgument, "tojson: an indent beyond 1000");
  }
  style.sort_keys = given[3].is_true();
  if (!given[2].is_undefined() && !given[2].is_none()) {
    const Sequence* const separators = given[2].sequence();
    if (separators == nullptr || separators->items.size() != 2) {
      return type_error("tojson", "two separators", given[2]);
    }
    style.item_separator = separators->items[0].str();
    style.key_separator = separators->items[1].str();
  }
  MEG_ASSIGN_OR_RETURN(std::string json, to_json(value, style));
  MEG_RETURN_IF_ERROR(interpreter.charge(1, json.size()));
  return Value::text(std::move(json));
}

Result<Value> escape_filter(Interpreter&, const Value& value, A arguments) {
  MEG_RETURN_IF_ERROR(bound("escape", std::move(arguments), {}).status());
  if (value.text() != nullptr && value.text()->is_markup) return value;
  std::string made;
  for (const char c : value.str()) {
    switch (c) {
      case '&':
        made += "&amp;";
        break;
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      case '\'':
        made += "&#39;";
        break;
      case '"':
        made += "&#34;";
        break;
      default:
        made += c;
    }
  }
  return Value::text(std::move(made), /*is_markup=*/true);
}

Result<Value> attr_filter(Interpreter&, const Value& value, A arguments) {
  MEG_ASSIGN_OR_RETURN(const auto given, bound("attr", std::move(arguments), {"name"}, 1));
  // Attributes alone, not items: of the values here a namespace has some.
  const Dict* const object = value.object();
  const Value* const found = object == nullptr ? nullptr : object->find(given[0]);
  if (found != nullptr) return *found;
  if (std::optional<Value> method = find_method(value, given[0].str())) return *std::move(method);
  return Value::undefined(
      fmt::format("'{} object' has no attribute '{}'", value.type_name(), given[0].str()));
}

const std::map<std::string, Filter, std::less<>>& filters() {
  using I = Interpreter;
  using V = Value;
  static const std::map<std::string, Filter, std::less<>> filters = {
      {"abs", abs_filter},
      {"attr", attr_filter},
      {"batch", batch_filter},
      {"capitalize",
       [](I&, const V& v, A a) {
         return text_made("capitalize", std::move(a), capitalized(v.str()));
       }},
      {"count", length_filter},
      {"d", default_filter},
      {"default", default_filter},
      {"dictsort", dictsort_filter},
      {"e", escape_filter},
      {"escape", escape_filter},
      {"first", first_filter},
      {"float", float_filter},
      {"format",
       [](I&, const V& v, A a) -> Result<V> {
         if (!a.keywords.empty()) {
           return Status(StatusCode::kUnsupported, "format: names of arguments");
         }
         return text_made(
             "format", {},
             percent_formatted(v.str(), Value::list(std::move(a.positional), /*is_tuple=*/true)));
       }},
      {"indent", indent_filter},
      {"int", int_filter},
      {"items", items_filter},
      {"join", join_filter},
      {"last", last_filter},
      {"length", length_filter},
      {"list", list_filter},
      {"lower",
       [](I&, const V& v, A a) { return text_made("lower", std::move(a), lower(v.str())); }},
      {"map", map_filter},
      {"max", [](I&, const V& v, A a) { return extreme("max", v, std::move(a), true); }},
      {"min", [](I&, const V& v, A a) { return extreme("min", v, std::move(a), false); }},
      {"reject", [](I& i, const V& v, A a) { return chosen(i, v, std::move(a), false, false); }},
      {"rejectattr", [](I& i, const V& v, A a) { return chosen(i, v, std::move(a), false, true); }},
      {"replace", replace_filter},
      {"reverse", reverse_filter},
      {"round", round_filter},
      {"safe",
       [](I&, const V& v, A a) -> Result<V> {
         MEG_RETURN_IF_ERROR(bound("safe", std::move(a), {}).status());
         return V::text(v.str(), /*is_markup=*/true);
       }},
      {"select", [](I& i, const V& v, A a) { return chosen(i, v, std::move(a), true, false); }},
      {"selectattr", [](I& i, const V& v, A a) { return chosen(i, v, std::move(a), true, true); }},
      {"sort", sort_filter},
      {"string", [](I&, const V& v, A a) { return text_made("string", std::move(a), v.str()); }},
      {"sum", sum_filter},
      {"title", title_filter},
      {"tojson", tojson_filter},
      {"trim", trim_filter},
      {"unique", unique_filter},
      {"upper",
       [](I&, const V& v, A a) { return text_made("upper", std::move(a), upper(v.str())); }},
  };
  return filters;
}

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
      {"filter", [](const V& v) -> R { return filters().contains(v.str()); }},
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

Result<Value> Interpreter::filter(const std::string& name, const Value& value,
                                  Arguments arguments) {
  const auto found = filters().find(name);
  if (found == filters().end()) {
    return make_error(StatusCode::kUnsupported, "no filter named {}", text::printable(name));
  }
  if (const Sequence* const items = value.sequence())
    MEG_RETURN_IF_ERROR(charge(items->items.size()));
  if (const Text* const text = value.text()) MEG_RETURN_IF_ERROR(charge(1, text->text.size()));
  MEG_ASSIGN_OR_RETURN(Value made, found->second(*this, value, std::move(arguments)));
  if (const Text* const text = made.text()) MEG_RETURN_IF_ERROR(charge(1, text->text.size()));
  return made;
}

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
