#pragma once

#include <cstddef>
#include <vector>

#include "libmeg/base/result.h"
#include "tools/common/flags/command_line.h"

namespace meg::tools {

/// The result of parsing a command line and its --config file.
struct ParsedFlags {
  enum class End { kGoOn, kHelp, kVersion, kListArguments };

  End end = End::kGoOn;
  std::vector<NamedFlag> given;  ///< Each once, as they came: the command line, then the file.
  size_t positionals = 0;        ///< How many positional words there were.
};

/// Checks all values, and stores them in the variables of their flags; those of the --config file
/// where the command line does not give the flag. Up to --help or --version.
/// Errors: kInvalidArgument for values that do not fit, one positional too many and files that
/// cannot be read; with FILE:LINE where the file is wrong.
Result<ParsedFlags> parse_flags(const FlagTable& table, const CommandLine& line);

}  // namespace meg::tools
