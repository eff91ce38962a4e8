#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/megatron/field_value.h"

namespace meg::megatron {

/// Reads fields of a configuration by type, with defaults. status() returns the first error, so
/// that a caller can read all fields and check once.
class FieldReader {
 public:
  /// lookup must live as long.
  explicit FieldReader(const FieldLookup& lookup) : lookup_(lookup) {}

  /// nullopt if the field is missing or None. T: a member of FieldValue; type: its words for the
  /// error.
  template <class T>
  std::optional<T> get(std::string_view name, std::string_view type) {
    const std::optional<FieldValue> value = lookup_(name);
    if (!value || std::holds_alternative<std::monostate>(*value)) return std::nullopt;
    if (const T* found = std::get_if<T>(&*value)) return *found;
    fail(name, type, *value);
    return std::nullopt;
  }

  /// A number above 0 that fits a size.
  std::optional<int64_t> size(std::string_view name);

  /// The same, but a missing field is an error; it then returns 1.
  int64_t required_size(std::string_view name);

  bool flag(std::string_view name, bool otherwise);

  /// An integer or a real number.
  std::optional<double> number(std::string_view name);

  std::optional<std::string> text(std::string_view name);

  /// Assigns to `into` if the field exists and is not None; otherwise `into` keeps its value, the
  /// default. T: bool, an integer, double, std::string, std::vector<std::string> or an optional of
  /// one.
  template <class T>
  void take(std::string_view name, T& into) {
    if constexpr (std::is_same_v<T, double>) {
      into = number(name).value_or(into);
    } else if constexpr (std::is_same_v<T, bool>) {
      into = flag(name, into);
    } else if constexpr (std::is_integral_v<T>) {
      into = static_cast<T>(get<int64_t>(name, "an integer").value_or(static_cast<int64_t>(into)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (auto found = text(name)) into = *std::move(found);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      if (auto found = get<T>(name, "a list")) into = *std::move(found);
    } else {
      typename T::value_type value = {};
      if (!is_missing(name)) take(name, into.emplace(value));
    }
  }

  /// The same through parse(text) -> Result<T>, whose error is prefixed with the field's name.
  template <class T, class Parse>
  void parse(std::string_view name, T& into, Parse parse_text) {
    const std::optional<std::string> found = text(name);
    if (!found.has_value()) return;
    const auto parsed = parse_text(*found);
    if (parsed.has_value()) {
      into = *parsed;
    } else {
      keep(parsed.error().with_prefix(name));
    }
  }

  /// The same for every word of a list.
  template <class T, class Parse>
  void parse_list(std::string_view name, std::vector<T>& into, Parse parse_text) {
    std::vector<std::string> words;
    take(name, words);
    for (const std::string& word : words) {
      const auto parsed = parse_text(word);
      if (!parsed.has_value()) return keep(parsed.error().with_prefix(name));
      into.push_back(*parsed);
    }
  }

  /// The first error of this reader's fields.
  const Status& status() const { return status_; }

 private:
  bool is_missing(std::string_view name) const;
  void keep(Status error);
  void fail(std::string_view name, std::string_view expected, const FieldValue& found);

  const FieldLookup& lookup_;
  Status status_;
};

/// The fields that a reader of configurations reads, each once: those that it requests from a
/// lookup that finds nothing. Readers must request all their fields, whatever the first ones
/// contain.
std::vector<std::string> fields_read_by(const std::function<void(const FieldLookup&)>& read);

}  // namespace meg::megatron
