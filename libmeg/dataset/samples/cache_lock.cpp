#include "libmeg/dataset/samples/cache_lock.h"

#include <filesystem>
#include <system_error>

#include "libmeg/core/atomic_file.h"

namespace meg {

std::string cache_lock_path(const std::string& main_file) { return main_file + ".lock"; }

Result<FileLock> lock_cache(const std::string& main_file, std::span<const std::string> files,
                            const FileLock::Waiting& waiting) {
  const std::string path = cache_lock_path(main_file);
  std::error_code ignored;
  // Who lets it go removes its file.
  const bool may_be_abandoned = std::filesystem::exists(path, ignored);
  MEG_ASSIGN_OR_RETURN(FileLock lock, FileLock::acquire(path, waiting));
  if (may_be_abandoned) {
    for (const std::string& file : files) AtomicFile::remove_stale_partials(file);
  }
  return lock;
}

}  // namespace meg
