#include "libmeg/samples/cache/internal/cache_lock.h"

#include <filesystem>
#include <system_error>

#include "libmeg/io/atomic_file.h"

namespace meg::samples {

std::string cache_lock_path(const std::string& main_file) { return main_file + ".lock"; }

namespace {

/// Takes the lock by `acquire`, and then removes what a killed holder left.
template <class Acquire>
auto lock_after(const std::string& main_file, std::span<const std::string> files,
                const Acquire& acquire) {
  const std::string path = cache_lock_path(main_file);
  std::error_code ignored;
  // Who lets it go removes its file, so a file that is there belongs to a holder or to one that was
  // killed. Only then is the folder, which may hold thousands of caches, listed for what it left.
  const bool may_be_abandoned = std::filesystem::exists(path, ignored);
  auto lock = acquire(path);
  if (may_be_abandoned && lock.has_value()) {
    for (const std::string& file : files) io::AtomicFile::remove_stale_partials(file);
  }
  return lock;
}

}  // namespace

Result<io::FileLock> lock_cache(const std::string& main_file, std::span<const std::string> files,
                                const io::FileLock::Waiting& waiting) {
  return lock_after(main_file, files,
                    [&](const std::string& path) { return io::FileLock::acquire(path, waiting); });
}

Result<std::optional<io::FileLock>> try_lock_cache(const std::string& main_file,
                                                   std::span<const std::string> files) {
  return lock_after(main_file, files,
                    [](const std::string& path) { return io::FileLock::try_acquire(path); });
}

}  // namespace meg::samples
