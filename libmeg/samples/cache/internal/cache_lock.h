#pragma once

#include <optional>
#include <span>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_lock.h"

namespace meg::samples {

/// Locks `<main_file>.lock`, under which a cache is built. If its last holder was killed, the
/// partial files of `files` that it left are removed. waiting: see FileLock.
Result<io::FileLock> lock_cache(const std::string& main_file, std::span<const std::string> files,
                                const io::FileLock::Waiting& waiting);

/// The same without waiting: nullopt where another process or thread holds it.
Result<std::optional<io::FileLock>> try_lock_cache(const std::string& main_file,
                                                   std::span<const std::string> files);

/// The lock's file.
std::string cache_lock_path(const std::string& main_file);

}  // namespace meg::samples
