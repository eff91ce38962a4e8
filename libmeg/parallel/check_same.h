#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/status.h"
#include "libmeg/parallel/parallel_state.h"

namespace meg::parallel {

/// Called by all ranks: kInvalidArgument, on all of them, with the first of these lines that
/// differs between a rank and the first rank. what: a name for the content of the lines.
Status check_same(std::string_view what, const std::string& lines, const ParallelState& ranks);

}  // namespace meg::parallel
