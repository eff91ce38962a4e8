#include "libmeg/core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace meg {
namespace {

Result<FileDescriptor> open_lock_file(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  // Between two calls another user's file may come and go; not so often that it were not the
  // folder that refuses.
  constexpr int kMostAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    int fd = ::open(path.c_str(), kFlags | O_RDWR | O_CREAT, 0666);
    const int error = errno;
    // Another user's file can be locked by reading it.
    if (fd < 0 && error == EACCES) fd = ::open(path.c_str(), kFlags | O_RDONLY);
    if (fd >= 0) return FileDescriptor(fd, path);
    const bool may_pass = error == EINTR || error == EACCES;
    if (!may_pass || attempt == kMostAttempts) return errno_error(error, "cannot create " + path);
  }
}

/// False where the file system has no locks.
bool wait_for_lock(const FileDescriptor& file) {
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

/// Whether path still names the open file, and not one that took its place, or nothing.
bool is_in_place(const FileDescriptor& file, const std::string& path) {
  struct stat open {
  }, named{};

  return ::fstat(file.get(), &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

}  // namespace

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

FileLock::~FileLock() {
  // Those who wait find the file gone from its place when they get the lock, and begin anew.
  if (file_.is_open() && is_in_place(file_, file_.path())) ::unlink(file_.path().c_str());
}

Result<FileLock> FileLock::acquire(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return errno_error(error.value(), "cannot create folder " + folder.string());
  while (true) {
    FileLock lock;
    MEG_ASSIGN_OR_RETURN(lock.file_, open_lock_file(path));
    if (!wait_for_lock(lock.file_)) {
      ::unlink(path.c_str());
      return FileLock();
    }
    if (is_in_place(lock.file_, path)) return lock;
  }
}

void FileLock::remove_abandoned(const std::string& path) {
  FileLock lock;
  lock.file_ =
      FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), path);
  if (!lock.file_.is_open()) return;
  // The destructor removes what is locked.
  if (::flock(lock.file_.get(), LOCK_EX | LOCK_NB) != 0) lock.file_ = FileDescriptor();
}

}  // namespace meg
