#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tools/common/flags/flag_spec.h"

namespace meg::tools {

/// Whether two names mean the same flag: `-` and `_` inside a name are equal.
bool same_flag_name(std::string_view a, std::string_view b);

/// Whether `typed` begins `name`, with the same rule.
bool begins_flag_name(std::string_view typed, std::string_view name);

/// A flag, and the name by which it was found.
struct NamedFlag {
  FlagSpec* spec;
  std::string_view name;
  bool is_old_name = false;
};

/// The flag with exactly this name, current or old.
std::optional<NamedFlag> find_flag(const FlagTable& table, std::string_view name);

/// Whether the program does not read this flag: it takes it with a note, or only with its default.
bool is_passed_over(const FlagSpec& spec);

/// That flag, else every flag that `typed` begins. Other names, and flags that are passed over,
/// come only where it fits no other name.
std::vector<NamedFlag> find_flags_by_prefix(const FlagTable& table, std::string_view typed);

/// The declared flag nearest to `typed` by nearest_name with the same rule, or nullptr where none
/// is near. Never the opposite of what was typed: --no-x for --x.
const FlagSpec* nearest_flag(const FlagTable& table, std::string_view typed);

/// Up to three flags that the program reads whose names have the most words of `typed`; none where
/// they share no word. Never the opposite of what was typed.
std::vector<std::string_view> read_flags_like(const FlagTable& table, std::string_view typed);

}  // namespace meg::tools
