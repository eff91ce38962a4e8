#pragma once

#include <span>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_lock.h"

namespace meg::samples {

/// The lock under which a cache is built, `<main_file>.lock`. Where its last holder was killed, the
/// partial files that it left of `files` are removed. waiting: see FileLock.
Result<io::FileLock> lock_cache(const std::string& main_file, std::span<const std::string> files,
                                const io::FileLock::Waiting& waiting);

/// The lock's file.
std::string cache_lock_path(const std::string& main_file);

}  // namespace meg::samples
