#include "libmeg/megatron/argument_values.h"

#include <algorithm>
#include <utility>

namespace meg::megatron {

ArgumentValues ArgumentValues::defaults(std::span<const ArgumentRow> rows) {
  ArgumentValues values;
  values.add_defaults(rows);
  return values;
}

void ArgumentValues::add_defaults(std::span<const ArgumentRow> rows) {
  for (const ArgumentRow& row : rows) {
    // Several flags may share a dest (--x and --no-x): argparse takes the default of the first one.
    if (fields_.contains(row.dest)) continue;
    std::optional<FieldValue> value = parse_python_value(row.default_value);
    // A default that is no literal is the text of an expression: better shown than none.
    if (!value) value = FieldValue(std::string(row.default_value));
    set(row.dest, *std::move(value));
  }
}

std::optional<FieldValue> ArgumentValues::field(std::string_view dest) const {
  const auto found = fields_.find(dest);
  return found == fields_.end() ? std::nullopt : std::optional(found->second.value);
}

FieldLookup ArgumentValues::lookup() const {
  return [this](std::string_view dest) { return field(dest); };
}

FieldLookup ArgumentValues::given_lookup() const {
  return [this](std::string_view dest) { return given(dest) ? field(dest) : std::nullopt; };
}

bool ArgumentValues::has_any(std::initializer_list<std::string_view> dests) const {
  return std::ranges::any_of(dests, [this](std::string_view dest) {
    const FieldValue value = field(dest).value_or(FieldValue());
    return value != FieldValue() && value != FieldValue(false) &&
           value != FieldValue(std::vector<std::string>());
  });
}

bool ArgumentValues::given(std::string_view dest) const {
  const auto found = fields_.find(dest);
  return found != fields_.end() && found->second.given;
}

void ArgumentValues::set(std::string_view dest, FieldValue value) {
  fields_[std::string(dest)].value = std::move(value);
}

void ArgumentValues::give(const ArgumentRow& row, FieldValue value) {
  set(row.dest, std::move(value));
  fields_.find(row.dest)->second.given = true;
  if (std::find(given_flags_.begin(), given_flags_.end(), row.flag) == given_flags_.end()) {
    given_flags_.emplace_back(row.flag);
  }
}

}  // namespace meg::megatron
