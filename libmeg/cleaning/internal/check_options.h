#pragma once

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"

namespace meg::cleaning {

/// kInvalidArgument and kUnsupported for options that are out of range, that contradict each other
/// or that would be ignored, and for outputs that are inputs or each other.
Status check_options(const CleanOptions& options);

}  // namespace meg::cleaning
