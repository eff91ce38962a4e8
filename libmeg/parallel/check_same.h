#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/status.h"
#include "libmeg/parallel/parallel_state.h"

namespace meg::parallel {

/// Called by all ranks. kInvalidArgument, on all of them, if a rank's lines differ from the first
/// rank's, with the first line that differs. what: a name for the content of the lines.
Status check_same(std::string_view what, const std::string& lines, const ParallelState& ranks);

}  // namespace meg::parallel
