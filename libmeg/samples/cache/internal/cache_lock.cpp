#include "libmeg/samples/cache/internal/cache_lock.h"

#include <filesystem>
#include <system_error>

#include "libmeg/io/atomic_file.h"

namespace meg::samples {

std::string cache_lock_path(const std::string& main_file) { return main_file + ".lock"; }

Result<io::FileLock> lock_cache(const std::string& main_file, std::span<const std::string> files,
                                const io::FileLock::Waiting& waiting) {
  const std::string path = cache_lock_path(main_file);
  std::error_code ignored;
  // Who lets it go removes its file, so a file that is there belongs to a holder or to one that was
  // killed. Only then is the folder, which may hold thousands of caches, listed for what it left.
  const bool may_be_abandoned = std::filesystem::exists(path, ignored);
  MEG_ASSIGN_OR_RETURN(io::FileLock lock, io::FileLock::acquire(path, waiting));
  if (may_be_abandoned) {
    for (const std::string& file : files) io::AtomicFile::remove_stale_partials(file);
  }
  return lock;
}

}  // namespace meg::samples
