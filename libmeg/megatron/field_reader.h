#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libmeg/core/status.h"
#include "libmeg/megatron/field_value.h"

namespace meg {

/// Reads fields of a configuration by type, with defaults; the first error is kept and told by
/// status(), so that a reader can take all its fields and look once.
class FieldReader {
 public:
  /// lookup must live as long.
  explicit FieldReader(const FieldLookup& lookup) : lookup_(lookup) {}

  /// nullopt where the field is missing or None. T: a member of FieldValue; type: its words for the
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

  /// The same, and an error where it is missing; then 1.
  int64_t required_size(std::string_view name);

  bool flag(std::string_view name, bool otherwise);

  /// An integer or a real number.
  std::optional<double> number(std::string_view name);

  std::optional<std::string> text(std::string_view name);

  const Status& status() const { return status_; }

 private:
  void fail(std::string_view name, std::string_view expected, const FieldValue& found);

  const FieldLookup& lookup_;
  Status status_;
};

}  // namespace meg
