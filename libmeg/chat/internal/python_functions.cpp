#include "libmeg/chat/internal/python_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "libmeg/chat/internal/text_functions.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"

namespace meg::chat {
namespace {

/// Wider texts are not made by padding.
constexpr int64_t kMaxWidth = 1 << 16;

enum class Side { kBegin, kEnd, kBoth };

Result<Value> padded(std::string_view function, const std::string& text, Arguments arguments,
                     Side side) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> given,
                       bound(function, std::move(arguments), {"width", "fillchar"}, 1));
  MEG_ASSIGN_OR_RETURN(const int64_t width, integer_or(function, given[0], 0));
  const std::string fill = given[1].is_undefined() ? " " : given[1].str();
  if (length_of(fill) != 1 || width > kMaxWidth) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a width of at most {} and one character", function, kMaxWidth);
  }
  const int64_t missing = std::max<int64_t>(0, width - length_of(text));
  // CPython puts the odd one to the left where the width is odd.
  const int64_t before = side == Side::kBegin  ? missing
                         : side == Side::kBoth ? missing / 2 + (missing & width & 1)
                                               : 0;
  std::string made;
  for (int64_t i = 0; i < before; ++i) made += fill;
  made += text;
  for (int64_t i = before; i < missing; ++i) made += fill;
  return Value::text(std::move(made));
}

/// text.split(): at runs of whitespace, at most `most` times (< 0: always).
std::vector<Value> words_of(std::string_view text, int64_t most) {
  std::vector<Value> words;
  text = stripped(text, std::nullopt, true, false);
  while (!text.empty()) {
    if (most >= 0 && std::ssize(words) == most) {
      words.push_back(Value::text(std::string(stripped(text, std::nullopt, false, true))));
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const text::DecodedCodePoint next = text::decode_code_point(text.substr(end));
      if (text::is_python_space(next.code_point)) break;
      end += next.size;
    }
    words.push_back(Value::text(std::string(text.substr(0, end))));
    text = stripped(text.substr(end), std::nullopt, true, false);
  }
  return words;
}

std::vector<Value> split_at(std::string_view text, std::string_view separator, int64_t most,
                            bool from_end) {
  std::vector<Value> parts;
  while (most < 0 || std::ssize(parts) < most) {
    const size_t at = from_end ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    const std::string_view part =
        from_end ? text.substr(at + separator.size()) : text.substr(0, at);
    parts.push_back(Value::text(std::string(part)));
    text = from_end ? text.substr(0, at) : text.substr(at + separator.size());
  }
  parts.push_back(Value::text(std::string(text)));
  if (from_end) std::ranges::reverse(parts);
  return parts;
}

Result<Value> split(const std::string& text, Arguments arguments, bool from_end) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> given,
                       bound("split", std::move(arguments), {"sep", "maxsplit"}));
  MEG_ASSIGN_OR_RETURN(const int64_t most, integer_or("split", given[1], -1));
  if (given[0].is_undefined() || given[0].is_none()) {
    if (from_end && most >= 0) {
      return make_error(StatusCode::kUnsupported, "rsplit: expected a separator beside maxsplit");
    }
    return Value::list(words_of(text, most));
  }
  const Text* const separator = given[0].text();
  if (separator == nullptr || separator->text.empty()) {
    return type_error("split", "a separator that is not empty", given[0]);
  }
  return Value::list(split_at(text, separator->text, most, from_end));
}

Result<Value> strip(std::string_view function, const std::string& text, Arguments arguments,
                    bool at_begin, bool at_end) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> given,
                       bound(function, std::move(arguments), {"chars"}));
  std::optional<std::string> characters;
  if (given[0].text() != nullptr) {
    characters = given[0].text()->text;
  } else if (!given[0].is_undefined() && !given[0].is_none()) {
    return type_error(function, "a str", given[0]);
  }
  return Value::text(std::string(stripped(text, characters, at_begin, at_end)));
}

/// The one str that a method is given.
Result<std::string> text_argument(std::string_view function, Arguments arguments) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> given,
                       bound(function, std::move(arguments), {"text"}, 1));
  if (given[0].text() == nullptr) return type_error(function, "a str", given[0]);
  return given[0].text()->text;
}

Result<Value> has_affix(std::string_view function, const std::string& text, Arguments arguments,
                        bool at_begin) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> given,
                       bound(function, std::move(arguments), {"affix"}, 1));
  const auto has = [&](const Value& affix) -> Result<bool> {
    if (affix.text() == nullptr) return type_error(function, "a str", affix);
    const std::string& part = affix.text()->text;
    return at_begin ? text.starts_with(part) : text.ends_with(part);
  };
  if (given[0].sequence() == nullptr) {
    MEG_ASSIGN_OR_RETURN(const bool answer, has(given[0]));
    return Value(answer);
  }
  for (const Value& affix : given[0].sequence()->items) {
    MEG_ASSIGN_OR_RETURN(const bool answer, has(affix));
    if (answer) return Value(true);
  }
  return Value(false);
}

Result<Value> find(std::string_view function, const std::string& text, Arguments arguments,
                   bool from_end, bool must_be_there) {
  MEG_ASSIGN_OR_RETURN(const std::string part, text_argument(function, std::move(arguments)));
  const size_t at = from_end ? text.rfind(part) : text.find(part);
  if (at != std::string::npos) return Value(length_of(std::string_view(text).substr(0, at)));
  if (!must_be_there) return Value(int64_t{-1});
  return make_error(StatusCode::kInvalidArgument, "{}: {} is not in the text", function,
                    text::printable(part));
}

Result<Value> count(const std::string& text, Arguments arguments) {
  MEG_ASSIGN_OR_RETURN(const std::string part, text_argument("count", std::move(arguments)));
  if (part.empty()) return Value(length_of(text) + 1);
  return Value(static_cast<int64_t>(split_at(text, part, -1, false).size()) - 1);
}

Result<Value> partition(const std::string& text, Arguments arguments, bool from_end) {
  MEG_ASSIGN_OR_RETURN(const std::string part, text_argument("partition", std::move(arguments)));
  if (part.empty()) return Status(StatusCode::kInvalidArgument, "partition: empty separator");
  const size_t at = from_end ? text.rfind(part) : text.find(part);
  const bool is_there = at != std::string::npos;
  const std::string empty;
  const std::string before = is_there ? text.substr(0, at) : from_end ? empty : text;
  const std::string after = is_there ? text.substr(at + part.size()) : from_end ? text : empty;
  return Value::list(
      {Value::text(before), Value::text(is_there ? part : empty), Value::text(after)},
      /*is_tuple=*/true);
}

Result<Value> join(const std::string& separator, Arguments arguments) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> given,
                       bound("join", std::move(arguments), {"iterable"}, 1));
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> items, items_of(given[0]));
  std::string made;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].text() == nullptr) return type_error("join", "items that are str", items[i]);
    if (i > 0) made += separator;
    made += items[i].text()->text;
  }
  return Value::text(std::move(made));
}

Result<Value> zero_filled(const std::string& text, Arguments arguments) {
  arguments.positional.push_back(Value::text("0"));
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  if (sign > 0 && arguments.positional[0].integer()) {
    arguments.positional[0] = Value(*arguments.positional[0].integer() - 1);
  }
  MEG_ASSIGN_OR_RETURN(const Value digits,
                       padded("zfill", text.substr(sign), std::move(arguments), Side::kBegin));
  return Value::text(text.substr(0, sign) + digits.str());
}

/// Whether a text is not empty and `is` holds for all of its characters.
template <class Is>
Result<Value> all_are(const std::string& text, Arguments arguments, Is&& is) {
  MEG_RETURN_IF_ERROR(bound("a test of characters", std::move(arguments), {}).status());
  bool all = !text.empty();
  for_each_character(text, [&](char32_t c, std::string_view) { all = all && is(c); });
  return Value(all);
}

/// Digits that Python knows beside decimal ones, such as superscripts, are refused.
Result<Value> all_are_digits(const std::string& text, Arguments arguments, bool or_letters) {
  bool is_unknown = false;
  const auto is = [&](char32_t c) {
    is_unknown = is_unknown || is_other_number(c);
    return is_decimal(c) || (or_letters && is_letter(c));
  };
  MEG_ASSIGN_OR_RETURN(const Value answer, all_are(text, std::move(arguments), is));
  if (is_unknown) {
    return make_error(StatusCode::kUnsupported,
                      "isdigit, isalnum: expected decimal digits, found others");
  }
  return answer;
}

Result<Value> all_are_of_case(std::string_view function, const std::string& text,
                              Arguments arguments, bool is_upper) {
  MEG_RETURN_IF_ERROR(bound(function, std::move(arguments), {}).status());
  return Value(is_of_case(text, is_upper));
}

using TextMethod = Result<Value> (*)(const std::string&, Arguments);

const std::map<std::string, TextMethod, std::less<>>& text_methods() {
  using S = const std::string&;
  static const std::map<std::string, TextMethod, std::less<>> methods = {
      {"strip", [](S s, Arguments a) { return strip("strip", s, std::move(a), true, true); }},
      {"lstrip", [](S s, Arguments a) { return strip("lstrip", s, std::move(a), true, false); }},
      {"rstrip", [](S s, Arguments a) { return strip("rstrip", s, std::move(a), false, true); }},
      {"split", [](S s, Arguments a) { return split(s, std::move(a), false); }},
      {"rsplit", [](S s, Arguments a) { return split(s, std::move(a), true); }},
      {"startswith",
       [](S s, Arguments a) { return has_affix("startswith", s, std::move(a), true); }},
      {"endswith", [](S s, Arguments a) { return has_affix("endswith", s, std::move(a), false); }},
      {"find", [](S s, Arguments a) { return find("find", s, std::move(a), false, false); }},
      {"rfind", [](S s, Arguments a) { return find("rfind", s, std::move(a), true, false); }},
      {"index", [](S s, Arguments a) { return find("index", s, std::move(a), false, true); }},
      {"rindex", [](S s, Arguments a) { return find("rindex", s, std::move(a), true, true); }},
      {"count", count},
      {"partition", [](S s, Arguments a) { return partition(s, std::move(a), false); }},
      {"rpartition", [](S s, Arguments a) { return partition(s, std::move(a), true); }},
      {"join", join},
      {"zfill", zero_filled},
      {"ljust", [](S s, Arguments a) { return padded("ljust", s, std::move(a), Side::kEnd); }},
      {"rjust", [](S s, Arguments a) { return padded("rjust", s, std::move(a), Side::kBegin); }},
      {"center", [](S s, Arguments a) { return padded("center", s, std::move(a), Side::kBoth); }},
      {"isspace", [](S s, Arguments a) { return all_are(s, std::move(a), text::is_python_space); }},
      {"isalpha", [](S s, Arguments a) { return all_are(s, std::move(a), is_letter); }},
      {"isdecimal", [](S s, Arguments a) { return all_are(s, std::move(a), is_decimal); }},
      {"isdigit", [](S s, Arguments a) { return all_are_digits(s, std::move(a), false); }},
      {"isalnum", [](S s, Arguments a) { return all_are_digits(s, std::move(a), true); }},
      {"isupper",
       [](S s, Arguments a) { return all_are_of_case("isupper", s, std::move(a), true); }},
      {"islower",
       [](S s, Arguments a) { return all_are_of_case("islower", s, std::move(a), false); }},
      {"format", [](S s, Arguments a) { return text_made("format", {}, brace_formatted(s, a)); }},
      {"upper", [](S s, Arguments a) { return text_made("upper", std::move(a), upper(s)); }},
      {"lower", [](S s, Arguments a) { return text_made("lower", std::move(a), lower(s)); }},
      {"capitalize",
       [](S s, Arguments a) { return text_made("capitalize", std::move(a), capitalized(s)); }},
      {"title", [](S s, Arguments a) { return text_made("title", std::move(a), titled(s)); }},
      {"removeprefix",
       [](S s, Arguments a) -> Result<Value> {
         MEG_ASSIGN_OR_RETURN(const std::string part, text_argument("removeprefix", std::move(a)));
         return Value::text(s.starts_with(part) ? s.substr(part.size()) : s);
       }},
      {"removesuffix",
       [](S s, Arguments a) -> Result<Value> {
         MEG_ASSIGN_OR_RETURN(const std::string part, text_argument("removesuffix", std::move(a)));
         return Value::text(s.ends_with(part) ? s.substr(0, s.size() - part.size()) : s);
       }},
      {"splitlines",
       [](S s, Arguments a) -> Result<Value> {
         MEG_ASSIGN_OR_RETURN(const auto given, bound("splitlines", std::move(a), {"keepends"}));
         std::vector<Value> lines;
         for (const std::string_view line : lines_of(s, given[0].is_true())) {
           lines.push_back(Value::text(std::string(line)));
         }
         return Value::list(std::move(lines));
       }},
      {"replace",
       [](S s, Arguments a) -> Result<Value> {
         MEG_ASSIGN_OR_RETURN(const auto given,
                              bound("replace", std::move(a), {"old", "new", "count"}, 2));
         MEG_ASSIGN_OR_RETURN(const int64_t most, integer_or("replace", given[2], -1));
         for (size_t i = 0; i < 2; ++i) {
           if (given[i].text() == nullptr) return type_error("replace", "a str", given[i]);
         }
         return Value::text(replaced(s, given[0].text()->text, given[1].text()->text, most));
       }},
  };
  return methods;
}

Value immutable(const std::string& name) {
  return Value::function(name, [name](Arguments) -> Result<Value> {
    return make_error(StatusCode::kUnsupported,
                      "{}: templates do not change lists and dicts, use a namespace", name);
  });
}

bool is_among(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::optional<Value> dict_method(const Value& of, const std::string& name) {
  if (is_among(name, {"clear", "pop", "popitem", "setdefault", "update"})) return immutable(name);
  if (is_among(name, {"items", "keys", "values", "copy"})) {
    return Value::function(name, [of, name](Arguments arguments) -> Result<Value> {
      MEG_RETURN_IF_ERROR(bound(name, std::move(arguments), {}).status());
      if (name == "copy") return of;
      std::vector<Value> items;
      for (const auto& [key, value] : of.dict_content()->items) {
        items.push_back(name == "keys"     ? key
                        : name == "values" ? value
                                           : Value::list({key, value}, /*is_tuple=*/true));
      }
      return Value::list(std::move(items));
    });
  }
  if (name != "get") return std::nullopt;
  return Value::function(name, [of](Arguments arguments) -> Result<Value> {
    MEG_ASSIGN_OR_RETURN(const auto given,
                         bound("get", std::move(arguments), {"key", "default"}, 1));
    const Value* const found = of.dict_content()->find(given[0]);
    if (found != nullptr) return *found;
    return given[1].is_undefined() ? Value() : given[1];
  });
}

std::optional<Value> list_method(const Value& of, const std::string& name) {
  if (is_among(name, {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"})) {
    return immutable(name);
  }
  if (!is_among(name, {"count", "index", "copy"})) return std::nullopt;
  return Value::function(name, [of, name](Arguments arguments) -> Result<Value> {
    if (name == "copy") {
      MEG_RETURN_IF_ERROR(bound(name, std::move(arguments), {}).status());
      return of;
    }
    MEG_ASSIGN_OR_RETURN(const auto given, bound(name, std::move(arguments), {"value"}, 1));
    const std::vector<Value>& items = of.sequence()->items;
    if (name == "count") return Value(static_cast<int64_t>(std::ranges::count(items, given[0])));
    const auto found = std::ranges::find(items, given[0]);
    if (found != items.end()) return Value(static_cast<int64_t>(found - items.begin()));
    return make_error(StatusCode::kInvalidArgument, "index: {} is not in the list",
                      given[0].repr());
  });
}

}  // namespace

Result<std::vector<Value>> bound(std::string_view function, Arguments arguments,
                                 std::initializer_list<std::string_view> parameters,
                                 size_t required) {
  if (arguments.positional.size() > parameters.size()) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected at most {} arguments, found {}",
                      function, parameters.size(), arguments.positional.size());
  }
  std::vector<Value> given = std::move(arguments.positional);
  std::vector<bool> is_given(given.size(), true);
  given.resize(parameters.size(), Value::undefined("an argument is missing"));
  is_given.resize(parameters.size(), false);
  for (auto& [name, value] : arguments.keywords) {
    const auto place =
        static_cast<size_t>(std::ranges::find(parameters, name) - parameters.begin());
    if (place == parameters.size() || is_given[place]) {
      return make_error(StatusCode::kInvalidArgument, "{}: unexpected argument {}", function,
                        text::printable(name));
    }
    given[place] = std::move(value);
    is_given[place] = true;
  }
  for (size_t i = 0; i < required; ++i) {
    if (is_given[i]) continue;
    return make_error(StatusCode::kInvalidArgument, "{}: missing argument {}", function,
                      parameters.begin()[i]);
  }
  return given;
}

Result<Value> text_made(std::string_view function, Arguments arguments, Result<std::string> text) {
  MEG_RETURN_IF_ERROR(bound(function, std::move(arguments), {}).status());
  if (!text.has_value()) return text.error();
  return Value::text(*std::move(text));
}

Result<int64_t> integer_or(std::string_view function, const Value& argument, int64_t otherwise) {
  if (argument.is_undefined()) return otherwise;
  const std::optional<int64_t> number = argument.integer();
  if (!number) return type_error(function, "an int", argument);
  return *number;
}

std::optional<Value> find_method(const Value& of, const std::string& name) {
  if (const Text* const text = of.text()) {
    const auto found = text_methods().find(name);
    if (found == text_methods().end()) return std::nullopt;
    return Value::function(
        name, [of, method = found->second](Arguments arguments) -> Result<Value> {
          if (of.text()->is_markup) {
            return Status(StatusCode::kUnsupported,
                          "a text that `safe` or `escape` made: only ~ and printing are supported");
          }
          return method(of.text()->text, std::move(arguments));
        });
  }
  if (of.sequence() != nullptr) return list_method(of, name);
  if (of.dict_content() != nullptr && of.object() == nullptr) return dict_method(of, name);
  return std::nullopt;
}

Result<std::string> current_time(const std::string& format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[1024];
  const size_t size = std::strftime(text, sizeof(text), format.c_str(), &local);
  if (size == 0 && !format.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "strftime_now: expected a format of a shorter text");
  }
  return std::string(text, size);
}

}  // namespace meg::chat
