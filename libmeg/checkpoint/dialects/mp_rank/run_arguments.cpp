#include "libmeg/checkpoint/dialects/mp_rank/run_arguments.h"

#include <fmt/format.h>

#include <string>
#include <variant>
#include <vector>

namespace meg::checkpoint {

using megatron::FieldValue;

std::optional<FieldValue> run_field(const TrainingArgs& args, std::string_view name) {
  const ArgValue* const found = args.find(name);
  const auto* const list = found != nullptr ? std::get_if<ArgValue::List>(&found->value) : nullptr;
  if (list == nullptr) {
    const std::optional<FieldValue> plain = args.field(name);
    const bool is_none = plain && std::holds_alternative<std::monostate>(*plain);
    return is_none ? std::nullopt : plain;
  }
  std::vector<std::string> words;
  for (const ArgValue& element : *list) {
    if (const auto* const text = std::get_if<std::string>(&element.value)) {
      words.push_back(*text);
    } else if (const auto* const integer = std::get_if<int64_t>(&element.value)) {
      words.push_back(std::to_string(*integer));
    } else if (const auto* const real = std::get_if<double>(&element.value)) {
      words.push_back(fmt::format("{}", *real));
    }
  }
  return words;
}

std::optional<FieldValue> run_argument(const TrainingArgs& args, const megatron::ArgumentRow& row) {
  if (auto found = run_field(args, row.dest)) return found;
  for (const std::string_view name : megatron::words_of(row.older_dests)) {
    if (name.starts_with('!')) continue;  // it said the opposite
    if (auto found = run_field(args, name)) return found;
  }
  return std::nullopt;
}

}  // namespace meg::checkpoint
