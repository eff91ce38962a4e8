#include "tools/common/flags/flag_names.h"

#include <algorithm>
#include <optional>
#include <string>

#include "libmeg/text/nearest_name.h"

namespace meg::tools {
namespace {

char plain_dash(char c) { return c == '_' ? '-' : c; }

std::string with_plain_dashes(std::string_view name) {
  std::string plain(name);
  std::transform(plain.begin(), plain.end(), plain.begin(), plain_dash);
  return plain;
}

bool says_no(std::string_view plain) {
  return plain.starts_with("--no-") || plain.starts_with("--disable-");
}

/// Whether a prefix may name this flag only if no other one fits: otherwise hundreds of Megatron's
/// flags that a program does not read would make its own prefixes ambiguous.
bool is_passed_over(const FlagSpec& spec) {
  return spec.use == FlagSpec::Use::kPassed || spec.use == FlagSpec::Use::kRefused;
}

/// The first of a flag's names that `fits`.
std::optional<NamedFlag> name_of(FlagSpec& spec, const auto& fits) {
  if (fits(spec.name)) return NamedFlag{&spec, spec.name};
  for (const std::string& name : spec.other_names) {
    if (fits(name)) return NamedFlag{&spec, name};
  }
  for (const std::string& name : spec.old_names) {
    if (fits(name)) return NamedFlag{&spec, name, true};
  }
  return std::nullopt;
}

}  // namespace

bool same_flag_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && begins_flag_name(a, b);
}

bool begins_flag_name(std::string_view typed, std::string_view name) {
  return typed.size() <= name.size() &&
         std::equal(typed.begin(), typed.end(), name.begin(),
                    [](char x, char y) { return plain_dash(x) == plain_dash(y); });
}

std::optional<NamedFlag> find_flag(const FlagTable& table, std::string_view name) {
  for (const auto& spec : table.flags) {
    const auto found =
        name_of(*spec, [&](std::string_view own) { return same_flag_name(name, own); });
    if (found.has_value()) return found;
  }
  return std::nullopt;
}

std::vector<NamedFlag> find_flags_by_prefix(const FlagTable& table, std::string_view typed) {
  if (const auto exact = find_flag(table, typed)) return {*exact};
  // `--` alone begins every name.
  if (typed.size() <= 2) return {};
  std::vector<NamedFlag> found;
  std::vector<NamedFlag> others;
  for (const auto& spec : table.flags) {
    const auto begun =
        name_of(*spec, [&](std::string_view own) { return begins_flag_name(typed, own); });
    if (!begun.has_value()) continue;
    const bool first = begun->name == spec->name && !is_passed_over(*spec);
    (first ? found : others).push_back(*begun);
  }
  return found.empty() ? others : found;
}

const FlagSpec* nearest_flag(const FlagTable& table, std::string_view typed) {
  const std::string plain_typed = with_plain_dashes(typed);
  std::vector<const FlagSpec*> specs;
  std::vector<std::string> plain;
  for (const auto& spec : table.flags) {
    std::string name = with_plain_dashes(spec->name);
    if (says_no(name) != says_no(plain_typed)) continue;
    specs.push_back(spec.get());
    plain.push_back(std::move(name));
  }
  const std::vector<std::string_view> names(plain.begin(), plain.end());
  const std::optional<size_t> nearest = text::nearest_name(plain_typed, names);
  return nearest.has_value() ? specs[*nearest] : nullptr;
}

}  // namespace meg::tools
