#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/status.h"
#include "libmeg/parallel/parallel_state.h"

namespace meg::parallel {

/// Called by all ranks: kInvalidArgument, on all of them, with the first of these lines that one
/// rank has otherwise than the first rank. what: that the lines say.
Status check_same(std::string_view what, const std::string& lines, const ParallelState& ranks);

}  // namespace meg::parallel
