#pragma once

#include <span>
#include <string>

#include "libmeg/core/file_lock.h"
#include "libmeg/core/result.h"

namespace meg {

/// The lock under which a cache is built, `<main_file>.lock`. Where its last holder was killed, the
/// partial files that it left of `files` are removed. waiting: see FileLock.
Result<FileLock> lock_cache(const std::string& main_file, std::span<const std::string> files,
                            const FileLock::Waiting& waiting);

/// The lock's file.
std::string cache_lock_path(const std::string& main_file);

}  // namespace meg
