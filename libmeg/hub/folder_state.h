#pragma once

#include <chrono>
#include <string>

#include "libmeg/base/result.h"

namespace meg::hub {

/// What tells a checkpoint's folder from what it was or will be, without reading its files.
struct FolderState {
  /// 40 hexadecimal digits of the names, sizes, times and numbers (inodes) of all files: others as
  /// soon as one of these changes.
  std::string digest;
  std::chrono::system_clock::time_point modified;  ///< The latest modification of a file.
};

/// Errors: kNotFound where the folder is gone; kInvalidArgument for a link in it that leaves the
/// root, and for more files than a checkpoint has.
Result<FolderState> folder_state(const std::string& root, const std::string& folder);

}  // namespace meg::hub
