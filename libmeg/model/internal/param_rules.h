#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/parameter_table.h"

namespace meg::model {

/// A line of a --param-rules file.
struct ParamRule {
  std::string pattern;
  Partition partition = Partition::kReplicated;
  std::optional<Placement> placement;
  int64_t line = 0;  ///< From 1.
};

/// Reads `PATTERN PARTITION [PLACEMENT]` a line; whitespace separates, a token that begins with #
/// starts a comment. kInvalidArgument as "name:line: ...: expected ..., found ...". Patterns are
/// not compiled here.
Result<std::vector<ParamRule>> parse_param_rules(std::string_view text, const std::string& name);

}  // namespace meg::model
