#pragma once

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_lock.h"

namespace meg::dataset {

/// Whoever writes the dataset at `prefix` holds PREFIX.lock; kIoError where somebody else does.
Result<io::FileLock> lock_dataset(const std::string& prefix);

}  // namespace meg::dataset
