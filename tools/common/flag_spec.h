#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libmeg/core/status.h"
#include "tools/common/flags.h"

namespace meg::tools {

/// One declared flag or positional.
struct FlagSpec {
  enum class Use { kBound, kPositional, kIgnored, kOther, kNotYet, kHelp, kVersion };

  using Target = std::variant<std::monostate, std::string*, int64_t*, double*, bool*,
                              std::vector<std::string>*, std::optional<std::string>*,
                              std::optional<int64_t>*, std::optional<double>*>;

  std::string name;
  std::string old_name;  ///< Empty: none.
  Use use = Use::kBound;
  Arity arity = Arity::kValue;
  Target target;
  std::string group;
  std::string metavar;
  std::string help;
  std::string default_text;  ///< Empty: nothing to show.
  bool required = false;
  bool given = false;
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  double real_min = -std::numeric_limits<double>::infinity();
  double real_max = std::numeric_limits<double>::infinity();
  bool real_limits = false;
  std::vector<std::string> choices;
};

/// Everything that was declared about one program.
struct FlagTable {
  std::string program;
  std::string summary;
  std::string group;
  std::vector<std::unique_ptr<FlagSpec>> flags;
  std::vector<std::unique_ptr<FlagSpec>> positionals;
};

/// Whether two names are one flag: `-` and `_` inside a name are the same.
bool same_flag_name(std::string_view a, std::string_view b);

/// Whether `typed` begins `name`, with the same rule.
bool begins_flag_name(std::string_view typed, std::string_view name);

/// The declared flag nearest to `typed` by nearest_name with the same rule, or nullptr where none
/// is near.
const FlagSpec* nearest_flag(const FlagTable& table, std::string_view typed);

/// Converts `values` and stores them in the spec's variable.
/// Errors: kInvalidArgument `--flag: expected ..., found ...`.
Status store_values(const FlagSpec& spec, const std::vector<std::string_view>& values);

/// What the spec's variable holds, as text for --help.
std::string current_value(const FlagSpec& spec);

/// The text of --help.
std::string help_text(const FlagTable& table);

/// The line that shows how to call the program.
std::string usage_line(const FlagTable& table);

}  // namespace meg::tools
