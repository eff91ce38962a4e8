#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::chat {

class Value;

/// A text: UTF-8, whose places are counted in code points as Python does.
struct Text {
  std::string text;
  bool is_markup = false;  ///< Made by `safe` or `escape`: markupsafe's str.
};

struct Sequence {
  std::vector<Value> items;
  bool is_tuple = false;
};

/// A dict, or an object of Jinja's with attributes (a namespace, `loop`).
struct Dict {
  std::vector<std::pair<Value, Value>> items;  ///< In the order of insertion.
  bool is_object = false;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
};

/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

/// A function, macro or bound method.
struct Callable {
  std::string name;
  std::function<Result<Value>(Arguments)> call;
};

/// A name or key that is not there: printed as nothing, false; most other uses are errors.
struct Undefined {
  std::shared_ptr<const std::string> what;  ///< The error's sentence.
};

/// A value of Python's, as a template sees it. Copies share their content, which does not change
/// (except a namespace's).
class Value {
 public:
  using Content = std::variant<Undefined, std::monostate, bool, int64_t, double,
                               std::shared_ptr<const Text>, std::shared_ptr<const Sequence>,
                               std::shared_ptr<Dict>, std::shared_ptr<const Callable>>;

  Value() : content_(std::monostate()) {}  ///< None.

  template <class T>
  explicit Value(T content) : content_(std::move(content)) {}

  static Value text(std::string text, bool is_markup = false) {
    return Value(std::make_shared<const Text>(Text{std::move(text), is_markup}));
  }

  static Value list(std::vector<Value> items, bool is_tuple = false) {
    return Value(std::make_shared<const Sequence>(Sequence{std::move(items), is_tuple}));
  }

  static Value dict() { return Value(std::make_shared<Dict>()); }

  static Value undefined(std::string what) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(what))});
  }

  static Value function(std::string name, std::function<Result<Value>(Arguments)> call) {
    return Value(std::make_shared<const Callable>(Callable{std::move(name), std::move(call)}));
  }

  /// numbers beyond 64 bits are refused.
  static Result<Value> from_json(const nlohmann::ordered_json& json);

  const Content& content() const { return content_; }

  bool is_undefined() const { return std::holds_alternative<Undefined>(content_); }

  bool is_none() const { return std::holds_alternative<std::monostate>(content_); }

  const bool* boolean() const { return std::get_if<bool>(&content_); }

  const double* real() const { return std::get_if<double>(&content_); }

  /// nullptr for other types, as of the functions below.
  const Text* text() const { return get<const Text>(); }

  const Sequence* sequence() const { return get<const Sequence>(); }

  const Dict* dict_content() const { return get<Dict>(); }

  Dict* object() const {
    Dict* const dict = get<Dict>();
    return dict != nullptr && dict->is_object ? dict : nullptr;
  }

  const Callable* callable() const { return get<const Callable>(); }

  /// An int of Python's, which True and False are, too.
  std::optional<int64_t> integer() const;

  /// An int or a float.
  std::optional<double> number() const;

  /// "str", "int" ..., for messages.
  std::string_view type_name() const;

  /// bool(value).
  bool is_true() const;

  /// str(value): `undefined` is empty.
  std::string str() const;

  /// repr(value).
  std::string repr() const;

  friend bool operator==(const Value& a, const Value& b);

 private:
  template <class T>
  T* get() const {
    const auto* const held = std::get_if<std::shared_ptr<T>>(&content_);
    return held == nullptr ? nullptr : held->get();
  }

  void append_repr(std::string& text, int depth) const;

  Content content_;
};

/// The error of a type that an operation does not take.
Status type_error(std::string_view operation, std::string_view expected, const Value& found);

/// Fails for lists and dicts, which cannot be keys.
Status check_key(const Value& key);

/// What `undefined` answers to any use.
Status undefined_error(const Value& value);

/// a < b as Python decides it; -1, 0 or 1. Numbers, strings and sequences of these.
Result<int> compare(const Value& a, const Value& b);

/// Code points of UTF-8.
int64_t length_of(std::string_view text);

/// The byte at which code point number `index` (0 to length) begins.
size_t offset_of(std::string_view text, int64_t index);

/// What iterating gives: items, keys of a dict, characters; nothing for `undefined`.
Result<std::vector<Value>> items_of(const Value& value);

/// json.dumps(value, ensure_ascii=False). indent < 0: on one line.
struct JsonStyle {
  int64_t indent = -1;
  bool sort_keys = false;
  bool ensure_ascii = false;
  std::optional<std::string> item_separator, key_separator;
};

Result<std::string> to_json(const Value& value, const JsonStyle& style);

}  // namespace meg::chat
