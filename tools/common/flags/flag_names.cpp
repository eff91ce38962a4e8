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

/// How many words of `typed` begin a word of `name`; both have plain dashes. Words such as "to" and
/// "no" say nothing.
size_t shared_words(std::string_view typed, std::string_view name) {
  constexpr size_t kFewestLetters = 3;
  size_t shared = 0;
  while (!typed.empty()) {
    const std::string_view word = typed.substr(0, typed.find('-'));
    typed.remove_prefix(std::min(typed.size(), word.size() + 1));
    if (word.size() < kFewestLetters) continue;
    if (name.find(std::string("-").append(word)) != name.npos) ++shared;
  }
  return shared;
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

// Hundreds of Megatron's flags are only passed over: they would make a program's own prefixes
// ambiguous.
bool is_passed_over(const FlagSpec& spec) {
  return spec.use == FlagSpec::Use::kPassed || spec.use == FlagSpec::Use::kRefused;
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

std::vector<std::string_view> read_flags_like(const FlagTable& table, std::string_view typed) {
  constexpr size_t kMostNames = 3;
  const std::string plain_typed = with_plain_dashes(typed);
  std::vector<std::string_view> names;
  size_t most = 1;
  for (const auto& spec : table.flags) {
    const std::string plain = with_plain_dashes(spec->name);
    if (is_passed_over(*spec) || says_no(plain) != says_no(plain_typed)) continue;
    const size_t shared = shared_words(plain_typed, plain);
    if (shared > most) names.clear();
    most = std::max(most, shared);
    if (shared == most && names.size() < kMostNames) names.push_back(spec->name);
  }
  return names;
}

}  // namespace meg::tools
