#include "libmeg/megatron/field_value.h"

#include <fmt/format.h>

#include "libmeg/text/printable.h"

namespace meg::megatron {
namespace {

struct Text {
  std::string operator()(std::monostate) const { return "None"; }

  std::string operator()(bool value) const { return value ? "True" : "False"; }

  std::string operator()(int64_t value) const { return std::to_string(value); }

  // The shortest text that reads back as the same number.
  std::string operator()(double value) const { return fmt::format("{}", value); }

  std::string operator()(const std::string& value) const { return text::printable(value); }

  std::string operator()(const std::vector<std::string>& words) const {
    std::string text;
    for (const std::string& word : words)
      text += (text.empty() ? "" : ", ") + text::printable(word);
    return "[" + text + "]";
  }
};

std::optional<double> number_of(const FieldValue& value) {
  // As in Python True equals 1.
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? 1 : 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

}  // namespace

std::string field_text(const FieldValue& value) { return std::visit(Text(), value); }

bool same_field(const FieldValue& a, const FieldValue& b) {
  const std::optional<double> left = number_of(a), right = number_of(b);
  // Numbers by value, whatever their type; a number never equals a text.
  return left.has_value() && right.has_value() ? *left == *right : a == b;
}

}  // namespace meg::megatron
