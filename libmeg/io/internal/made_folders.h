#pragma once

#include <string>

#include "libmeg/base/status.h"

namespace meg::io {

/// Creates `folder` and those above it that are missing. `cannot create folder ...` otherwise.
Status make_folders(const std::string& folder);

/// Removes `folder`, and those above it, as far as make_folders() created them in this process and
/// they are empty: outputs that are given up leave no folders behind.
void remove_made_folders(const std::string& folder);

}  // namespace meg::io
