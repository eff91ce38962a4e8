#include "libmeg/chat/internal/value.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "libmeg/text/json/python_float.h"
#include "libmeg/text/utf8.h"

namespace meg::chat {
namespace {

/// Values nested deeper are neither printed nor compared.
constexpr int kMaxNestedValues = 200;

/// Python's str.isprintable of a character.
bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void append_text_repr(std::string_view given, std::string& text) {
  const bool has_single = given.find('\'') != std::string_view::npos;
  const char quote = has_single && given.find('"') == std::string_view::npos ? '"' : '\'';
  text += quote;
  while (!given.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(given);
    const char32_t c = next.code_point;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\r') {
      text += "\\r";
    } else if (c == '\t') {
      text += "\\t";
    } else if (is_printable(c)) {
      text += given.substr(0, next.size);
    } else if (c < 0x100) {
      text += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      text += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      text += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
    given.remove_prefix(next.size);
  }
  text += quote;
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return text::python_float_text(value);
}

bool equal(const Value& a, const Value& b, int depth) {
  if (depth > kMaxNestedValues) return false;
  const std::optional<double> x = a.number(), y = b.number();
  if (x && y) {
    const std::optional<int64_t> i = a.integer(), j = b.integer();
    return i && j ? *i == *j : *x == *y;
  }
  if (a.content().index() != b.content().index()) return false;
  if (a.is_none() || a.is_undefined()) return true;
  if (const Text* const text = a.text()) return text->text == b.text()->text;
  if (const Sequence* const left = a.sequence()) {
    const Sequence* const right = b.sequence();
    return left->is_tuple == right->is_tuple &&
           std::ranges::equal(left->items, right->items, [&](const Value& one, const Value& other) {
             return equal(one, other, depth + 1);
           });
  }
  if (const Dict* const left = a.dict_content()) {
    const Dict* const right = b.dict_content();
    if (left == right) return true;
    if (left->items.size() != right->items.size()) return false;
    return std::ranges::all_of(left->items, [&](const auto& item) {
      const Value* const other = right->find(item.first);
      return other != nullptr && equal(item.second, *other, depth + 1);
    });
  }
  return a.callable() == b.callable();
}

/// json.dumps.
class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style)
      : style_(style),
        item_(style.item_separator.value_or(style.indent >= 0 ? "," : ", ")),
        key_(style.key_separator.value_or(": ")) {}

  Status write(const Value& value, int64_t depth) {
    if (depth > kMaxNestedValues) {
      return make_error(StatusCode::kResourceExhausted, "tojson: expected at most {} levels",
                        kMaxNestedValues);
    }
    if (value.is_none()) {
      json_ += "null";
    } else if (const bool* const boolean = value.boolean()) {
      json_ += *boolean ? "true" : "false";
    } else if (const Text* const text = value.text()) {
      append_text(text->text);
    } else if (const double* const real = value.real()) {
      json_ += std::isnan(*real)   ? "NaN"
               : std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity")
                                   : text::python_float_text(*real);
    } else if (value.integer()) {
      json_ += value.str();
    } else if (const Sequence* const sequence = value.sequence()) {
      return write_items('[', ']', sequence->items.size(), depth,
                         [&](size_t i) { return write(sequence->items[i], depth + 1); });
    } else if (const Dict* const dict = value.dict_content(); dict != nullptr && !dict->is_object) {
      return write_dict(*dict, depth);
    } else {
      return type_error("tojson", "a value of JSON", value);
    }
    return {};
  }

  std::string take() { return std::move(json_); }

 private:
  void append_text(std::string_view text) {
    json_ += nlohmann::json(text).dump(-1, ' ', style_.ensure_ascii,
                                       nlohmann::json::error_handler_t::replace);
  }

  void new_line(int64_t depth) {
    if (style_.indent < 0) return;
    json_ += '\n';
    json_.append(static_cast<size_t>(depth * style_.indent), ' ');
  }

  template <class WriteItem>
  Status write_items(char open, char close, size_t count, int64_t depth, WriteItem&& write_item) {
    json_ += open;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) json_ += item_;
      new_line(depth + 1);
      MEG_RETURN_IF_ERROR(write_item(i));
    }
    if (count > 0) new_line(depth);
    json_ += close;
    return {};
  }

  Status write_dict(const Dict& dict, int64_t depth) {
    std::vector<std::pair<std::string, const Value*>> items;
    for (const auto& [key, value] : dict.items) {
      const bool is_simple = key.is_none() || key.number() || key.text() != nullptr;
      if (!is_simple) return type_error("tojson", "keys that are str, numbers or None", key);
      std::string name = key.str();
      if (key.is_none()) name = "null";
      if (key.boolean() != nullptr) name = *key.boolean() ? "true" : "false";
      items.emplace_back(std::move(name), &value);
    }
    if (style_.sort_keys) std::ranges::stable_sort(items, {}, &decltype(items)::value_type::first);
    return write_items('{', '}', items.size(), depth, [&](size_t i) {
      append_text(items[i].first);
      json_ += key_;
      return write(*items[i].second, depth + 1);
    });
  }

  const JsonStyle& style_;
  std::string item_, key_, json_;
};

}  // namespace

const Value* Dict::find(const Value& key) const {
  for (const auto& [name, value] : items) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    const Text* const text = name.text();
    if (text != nullptr && text->text == key) return &value;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  for (auto& [name, old] : items) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  items.emplace_back(std::move(key), std::move(value));
}

Result<Value> Value::from_json(const nlohmann::ordered_json& json) {
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::boolean:
      return Value(json.get<bool>());
    case Type::number_integer:
      return Value(json.get<int64_t>());
    case Type::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > INT64_MAX) {
        return make_error(StatusCode::kOutOfRange, "expected integers of 64 bits, found {}",
                          number);
      }
      return Value(static_cast<int64_t>(number));
    }
    case Type::number_float: {
      const auto number = json.get<double>();
      // What was written as an integer is an int of Python's, and prints as one.
      if (std::abs(number) >= 0x1p63) {
        return make_error(StatusCode::kOutOfRange, "expected numbers below 2^63, found {}", number);
      }
      return Value(number);
    }
    case Type::string:
      return text(json.get<std::string>());
    case Type::array: {
      std::vector<Value> items;
      for (const auto& one : json) {
        MEG_ASSIGN_OR_RETURN(Value item, from_json(one));
        items.push_back(std::move(item));
      }
      return list(std::move(items));
    }
    case Type::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, one] : json.items()) {
        MEG_ASSIGN_OR_RETURN(Value item, from_json(one));
        dict->items.emplace_back(text(key), std::move(item));
      }
      return Value(std::move(dict));
    }
    default:
      return Value();
  }
}

std::optional<int64_t> Value::integer() const {
  if (const auto* const number = std::get_if<int64_t>(&content_)) return *number;
  if (const bool* const truth = boolean()) return *truth ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* const number = real()) return *number;
  if (const std::optional<int64_t> number = integer()) return static_cast<double>(*number);
  return std::nullopt;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "None";
  if (boolean() != nullptr) return "bool";
  if (real() != nullptr) return "float";
  if (text() != nullptr) return "str";
  if (const Sequence* const items = sequence()) return items->is_tuple ? "tuple" : "list";
  if (object() != nullptr) return "namespace";
  if (dict_content() != nullptr) return "dict";
  return callable() != nullptr ? "function" : "int";
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (const std::optional<double> value = number()) return *value != 0;
  if (const Text* const value = text()) return !value->text.empty();
  if (const Sequence* const value = sequence()) return !value->items.empty();
  if (const Dict* const value = dict_content()) return value->is_object || !value->items.empty();
  return true;
}

std::string Value::str() const {
  if (is_undefined()) return {};
  if (const Text* const value = text()) return value->text;
  return repr();
}

std::string Value::repr() const {
  std::string text;
  append_repr(text, 0);
  return text;
}

void Value::append_repr(std::string& text, int depth) const {
  if (depth > kMaxNestedValues) {
    text += "...";
  } else if (is_undefined()) {
    text += "Undefined";
  } else if (is_none()) {
    text += "None";
  } else if (const bool* const truth = boolean()) {
    text += *truth ? "True" : "False";
  } else if (const double* const number = real()) {
    text += real_text(*number);
  } else if (const std::optional<int64_t> whole = integer()) {
    text += fmt::to_string(*whole);
  } else if (const Text* const own = this->text()) {
    if (own->is_markup) text += "Markup(";
    append_text_repr(own->text, text);
    if (own->is_markup) text += ')';
  } else if (const Sequence* const items = sequence()) {
    text += items->is_tuple ? '(' : '[';
    for (size_t i = 0; i < items->items.size(); ++i) {
      if (i > 0) text += ", ";
      items->items[i].append_repr(text, depth + 1);
    }
    if (items->is_tuple && items->items.size() == 1) text += ',';
    text += items->is_tuple ? ')' : ']';
  } else if (const Dict* const dict = dict_content()) {
    text += dict->is_object ? "<Namespace {" : "{";
    for (size_t i = 0; i < dict->items.size(); ++i) {
      if (i > 0) text += ", ";
      dict->items[i].first.append_repr(text, depth + 1);
      text += ": ";
      dict->items[i].second.append_repr(text, depth + 1);
    }
    text += dict->is_object ? "}>" : "}";
  } else {
    text += fmt::format("<{}>", callable()->name);
  }
}

bool operator==(const Value& a, const Value& b) { return equal(a, b, 0); }

Status type_error(std::string_view operation, std::string_view expected, const Value& found) {
  if (found.is_undefined()) return undefined_error(found);
  return make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", operation, expected,
                    found.type_name());
}

Status check_key(const Value& key) {
  if (const Sequence* const items = key.sequence(); items != nullptr && items->is_tuple) {
    for (const Value& item : items->items) MEG_RETURN_IF_ERROR(check_key(item));
    return {};
  }
  if (key.sequence() == nullptr && (key.dict_content() == nullptr || key.object() != nullptr)) {
    return {};
  }
  return type_error("a key", "a value that does not change", key);
}

Status undefined_error(const Value& value) {
  return {StatusCode::kInvalidArgument, *std::get<Undefined>(value.content()).what};
}

Result<int> compare(const Value& a, const Value& b) {
  const auto sign = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.integer() && b.integer()) return sign(*a.integer(), *b.integer());
  if (a.number() && b.number()) return sign(*a.number(), *b.number());
  if (a.text() != nullptr && b.text() != nullptr) {
    // The order of UTF-8's bytes is that of code points.
    return sign(a.text()->text, b.text()->text);
  }
  const Sequence *const left = a.sequence(), *const right = b.sequence();
  if (left != nullptr && right != nullptr && left->is_tuple == right->is_tuple) {
    for (size_t i = 0; i < std::min(left->items.size(), right->items.size()); ++i) {
      if (left->items[i] == right->items[i]) continue;
      return compare(left->items[i], right->items[i]);
    }
    return sign(left->items.size(), right->items.size());
  }
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  return make_error(StatusCode::kInvalidArgument, "a comparison: {} and {} have no order",
                    a.type_name(), b.type_name());
}

int64_t length_of(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return !text::is_continuation_byte(c); });
}

size_t offset_of(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += text::character_size(text[at]);
  return std::min(at, text.size());
}

Result<std::vector<Value>> items_of(const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (const Sequence* const sequence = value.sequence()) return sequence->items;
  if (const Dict* const dict = value.dict_content(); dict != nullptr && !dict->is_object) {
    for (const auto& [key, _] : dict->items) items.push_back(key);
    return items;
  }
  if (const Text* const text = value.text()) {
    for (std::string_view rest = text->text; !rest.empty();) {
      const size_t size = std::min(text::character_size(rest[0]), rest.size());
      items.push_back(Value::text(std::string(rest.substr(0, size))));
      rest.remove_prefix(size);
    }
    return items;
  }
  return type_error("iteration", "a list, dict or str", value);
}

Result<std::string> to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  MEG_RETURN_IF_ERROR(writer.write(value, 0));
  return writer.take();
}

}  // namespace meg::chat
