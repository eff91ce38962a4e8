#pragma once

#include "libmeg/base/progress.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/internal/shared_state.h"

namespace meg::cleaning {

/// Decides which of the documents that are held stay, and writes those, in their order or shuffled.
Status release_held(const CleanOptions& options, SharedState& shared,
                    const ProgressCallback& progress);

}  // namespace meg::cleaning
