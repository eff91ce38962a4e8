#include "libmeg/model/expert_names.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace meg::model {
namespace {

constexpr std::string_view kExperts = ".mlp.experts.";
constexpr std::string_view kSequential = "local_experts.";

/// Reads a number as the table reads numbers of layers: at most 9 digits, no leading zeros.
std::optional<int64_t> parse_number(std::string_view text) {
  constexpr size_t kMostDigits = 9;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && number >= 0;
  if (!is_number || text.size() > kMostDigits || (text.size() > 1 && text[0] == '0')) {
    return std::nullopt;
  }
  return number;
}

bool is_linear(std::string_view module) { return module == "linear_fc1" || module == "linear_fc2"; }

/// "linear_fc1.weight"
bool is_parameter(std::string_view text, bool may_be_state) {
  const size_t dot = text.find('.');
  if (dot == text.npos || !is_linear(text.substr(0, dot))) return false;
  const std::string_view ending = text.substr(dot + 1);
  return ending == "weight" || ending == "bias" || (may_be_state && ending == kExtraState);
}

std::string spelled(const ExpertName& name, int64_t expert, bool is_grouped) {
  if (is_grouped) return fmt::format("{}{}{}", name.layer_name, name.parameter, expert);
  return fmt::format("{}{}{}.{}", name.layer_name, kSequential, expert, name.parameter);
}

}  // namespace

bool is_norm_before_mlp(std::string_view canonical) {
  return canonical.starts_with("decoder.layers.{}.pre_mlp_layernorm.");
}

std::optional<ExpertName> parse_expert_name(std::string_view name) {
  const size_t at = name.find(kExperts);
  if (at == name.npos) return std::nullopt;
  ExpertName found;
  found.layer_name = name.substr(0, at + kExperts.size());
  std::string_view rest = name.substr(found.layer_name.size());
  std::string_view number;
  if (rest.starts_with(kSequential)) {
    rest.remove_prefix(kSequential.size());
    number = rest.substr(0, rest.find('.'));
    if (number.size() == rest.size()) return std::nullopt;
    found.parameter = rest.substr(number.size() + 1);
  } else {
    // A grouped module has one tensor for each expert, so the number stands after the parameter's
    // name instead of before the module's.
    found.is_grouped = true;
    found.parameter = rest.substr(0, rest.find_last_not_of("0123456789") + 1);
    number = rest.substr(found.parameter.size());
  }
  const std::optional<int64_t> expert = parse_number(number);
  if (!expert.has_value() || !is_parameter(found.parameter, !found.is_grouped)) {
    return std::nullopt;
  }
  found.expert = *expert;
  return found;
}

std::string with_expert(const ExpertName& name, int64_t expert) {
  return spelled(name, expert, name.is_grouped);
}

std::string sequential_expert_name(const ExpertName& name) {
  return spelled(name, name.expert, false);
}

}  // namespace meg::model
