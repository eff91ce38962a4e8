#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "tools/common/flags/flag_names.h"

namespace meg::tools {

/// One flag of a command line with the values that belong to it.
struct FlagUse {
  NamedFlag flag;
  std::vector<std::string_view> values;
};

/// A parsed command line.
struct CommandLine {
  std::vector<FlagUse> flags;  ///< As typed, up to the first --help or --version.
  std::vector<std::string_view> positionals;
};

/// Sorts the words after the program's name into flags, their values and positional arguments, by
/// argparse's rules (see Flags). Values are not checked, and there may be more positional arguments
/// than the program accepts. Errors: kInvalidArgument for unknown and ambiguous flags, missing
/// values and values of switches.
Result<CommandLine> read_command_line(const FlagTable& table,
                                      std::span<const std::string_view> words);

}  // namespace meg::tools
