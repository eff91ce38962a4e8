#pragma once

#include <string>
#include <vector>

#include "tools/common/flags/flag_names.h"

namespace meg::tools {

/// Makes flags from the rows of the table's families; see Flags::arguments.
void add_argument_flags(FlagTable& table);

/// The text of --list-arguments: a line a row, its cells parted by tabs, after a line of titles.
std::string argument_list(const FlagTable& table);

/// The notes about rows that were given and make no difference: "ignored: --a, --b (profiling)",
/// one for each reason.
std::vector<std::string> ignored_arguments(const std::vector<NamedFlag>& given);

/// The rows that were given, that the program would have to heed and does not, where their value
/// is not the default: "--a, --b: not supported yet (would change the model); --c: ..."; empty
/// where there are none.
std::string refused_arguments(const std::vector<NamedFlag>& given);

}  // namespace meg::tools
