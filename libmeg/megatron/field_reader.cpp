#include "libmeg/megatron/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "libmeg/text/printable.h"

namespace meg::megatron {
namespace {

/// No size of a model is larger; keeps every product of two of them (and a few sums) in 64 bits.
constexpr int64_t kLargestSize = int64_t{1} << 30;

std::string value_text(const FieldValue& value) {
  return std::holds_alternative<std::monostate>(value) ? "nothing" : field_text(value);
}

}  // namespace

std::optional<int64_t> FieldReader::size(std::string_view name) {
  const std::optional<int64_t> value = get<int64_t>(name, "an integer");
  if (value && (*value < 1 || *value > kLargestSize)) {
    fail(name, fmt::format("1 to {}", kLargestSize), *value);
    // A usable number, so that a reader may continue, and divide, until it looks at status().
    return 1;
  }
  return value;
}

int64_t FieldReader::required_size(std::string_view name) {
  const std::optional<int64_t> value = size(name);
  if (!value) fail(name, "an integer", std::monostate());
  return value.value_or(1);
}

bool FieldReader::flag(std::string_view name, bool otherwise) {
  return get<bool>(name, "True or False").value_or(otherwise);
}

std::optional<double> FieldReader::number(std::string_view name) {
  // Python takes an int for a float, too.
  const std::optional<FieldValue> value = lookup_(name);
  if (value) {
    if (const auto* integer = std::get_if<int64_t>(&*value)) return static_cast<double>(*integer);
  }
  return get<double>(name, "a number");
}

std::optional<std::string> FieldReader::text(std::string_view name) {
  return get<std::string>(name, "a string");
}

bool FieldReader::is_missing(std::string_view name) const {
  const std::optional<FieldValue> value = lookup_(name);
  return !value || std::holds_alternative<std::monostate>(*value);
}

void FieldReader::fail(std::string_view name, std::string_view expected, const FieldValue& found) {
  keep(make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", name, expected,
                  value_text(found)));
}

void FieldReader::keep(Status error) {
  if (status_.ok()) status_ = std::move(error);
}

// Runs a reader on fields that are all missing and writes down what it asks for: lists of flags
// then need no second copy.
std::vector<std::string> fields_read_by(const std::function<void(const FieldLookup&)>& read) {
  std::vector<std::string> names;
  read([&names](std::string_view name) -> std::optional<FieldValue> {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
    return std::nullopt;
  });
  return names;
}

}  // namespace meg::megatron
