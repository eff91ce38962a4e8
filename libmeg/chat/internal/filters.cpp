// Jinja's filters of single values: jinja2/filters.py.

#include "libmeg/chat/internal/filters.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "libmeg/chat/internal/interpreter.h"
#include "libmeg/chat/internal/python_functions.h"
#include "libmeg/chat/internal/text_functions.h"
#include "libmeg/text/json/python_float.h"
#include "libmeg/text/printable.h"

namespace meg::chat {
namespace {

using A = Arguments;

Result<Value> default_filter(Interpreter&, const Value& value, A arguments) {
  // What is given may be undefined itself.
  if (arguments.positional.empty()) arguments.positional.push_back(Value::text(""));
  MEG_ASSIGN_OR_RETURN(const auto given,
                       bound("default", std::move(arguments), {"default_value", "boolean"}));
  if (!value.is_undefined() && (!given[1].is_true() || value.is_true())) return value;
  return given[0];
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

const Filters& value_filters() {
  using I = Interpreter;
  using V = Value;
  static const Filters filters = {
      {"abs", abs_filter},
      {"attr", attr_filter},
      {"capitalize",
       [](I&, const V& v, A a) {
         return text_made("capitalize", std::move(a), capitalized(v.str()));
       }},
      {"d", default_filter},
      {"default", default_filter},
      {"e", escape_filter},
      {"escape", escape_filter},
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
      {"lower",
       [](I&, const V& v, A a) { return text_made("lower", std::move(a), lower(v.str())); }},
      {"replace", replace_filter},
      {"round", round_filter},
      {"safe",
       [](I&, const V& v, A a) -> Result<V> {
         MEG_RETURN_IF_ERROR(bound("safe", std::move(a), {}).status());
         return V::text(v.str(), /*is_markup=*/true);
       }},
      {"string", [](I&, const V& v, A a) { return text_made("string", std::move(a), v.str()); }},
      {"title", title_filter},
      {"tojson", tojson_filter},
      {"trim", trim_filter},
      {"upper",
       [](I&, const V& v, A a) { return text_made("upper", std::move(a), upper(v.str())); }},
  };
  return filters;
}

}  // namespace

const Filter* find_filter(std::string_view name) {
  for (const Filters* const filters : {&value_filters(), &list_filters()}) {
    const auto found = filters->find(name);
    if (found != filters->end()) return &found->second;
  }
  return nullptr;
}

Result<Value> Interpreter::filter(const std::string& name, const Value& value,
                                  Arguments arguments) {
  const Filter* const found = find_filter(name);
  if (found == nullptr) {
    return make_error(StatusCode::kUnsupported, "no filter named {}", text::printable(name));
  }
  if (const Sequence* const items = value.sequence())
    MEG_RETURN_IF_ERROR(charge(items->items.size()));
  if (const Text* const text = value.text()) MEG_RETURN_IF_ERROR(charge(1, text->text.size()));
  MEG_ASSIGN_OR_RETURN(Value made, (*found)(*this, value, std::move(arguments)));
  if (const Text* const text = made.text()) MEG_RETURN_IF_ERROR(charge(1, text->text.size()));
  return made;
}

}  // namespace meg::chat
