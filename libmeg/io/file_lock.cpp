#include "libmeg/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "libmeg/io/internal/made_folders.h"
#include "libmeg/io/internal/partial_path.h"

// flock() locks an open file, not a name. As the holder removes the file when it is done, the lock
// that a waiter then gets is that of a file without a name, which protects nothing: others would
// create and lock a new one. So whoever gets a lock looks whether the name still means this file,
// and starts over if it does not. Removing needs no further care, because only the holder of the
// lock on the named file removes it.

namespace meg::io {
namespace {

Result<FileDescriptor> open_lock_file(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  // Between two calls another user's file may come and go; not so often that it were not the
  // folder that refuses.
  constexpr int kMaxAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    int fd = ::open(path.c_str(), kFlags | O_RDWR | O_CREAT, 0666);
    const int error = errno;
    // Another user's file can be locked by reading it.
    if (fd < 0 && error == EACCES) fd = ::open(path.c_str(), kFlags | O_RDONLY);
    if (fd >= 0) return FileDescriptor(fd, path);
    const bool may_pass = error == EINTR || error == EACCES;
    if (!may_pass || attempt == kMaxAttempts) return errno_error(error, "cannot create " + path);
  }
}

/// flock() has no time limit, so a caller that wants to be asked polls.
constexpr auto kWaitingInterval = std::chrono::milliseconds(50);

enum class Locked { kYes, kBySomebodyElse, kNotHere };

/// operation: LOCK_EX, alone or with LOCK_NB. kNotHere: the file system has no locks.
Locked lock_file(const FileDescriptor& file, int operation) {
  while (::flock(file.get(), operation) != 0) {
    if (errno == EWOULDBLOCK) return Locked::kBySomebodyElse;
    if (errno != EINTR) return Locked::kNotHere;
  }
  return Locked::kYes;
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
  // Those who wait find the file gone from its place when they get the lock, and start over.
  if (!file_.is_open()) return;
  if (is_in_place(file_, file_.path())) ::unlink(file_.path().c_str());
  remove_made_folders(folder_above(file_.path()));
}

Result<FileLock> FileLock::acquire(const std::string& path, const Waiting& waiting) {
  while (true) {
    MEG_ASSIGN_OR_RETURN(std::optional<FileLock> lock,
                         take(path, waiting ? LOCK_EX | LOCK_NB : LOCK_EX));
    if (lock.has_value()) return *std::move(lock);
    if (!waiting()) return make_error(StatusCode::kCancelled, "{}: interrupted", path);
    std::this_thread::sleep_for(kWaitingInterval);
  }
}

Result<std::optional<FileLock>> FileLock::try_acquire(const std::string& path) {
  return take(path, LOCK_EX | LOCK_NB);
}

Result<std::optional<FileLock>> FileLock::take(const std::string& path, int operation) {
  MEG_RETURN_IF_ERROR(make_folders(folder_above(path)));
  FileLock lock;
  while (true) {
    MEG_ASSIGN_OR_RETURN(FileDescriptor file, open_lock_file(path));
    const Locked locked = lock_file(file, operation);
    if (locked == Locked::kBySomebodyElse) return std::optional<FileLock>();
    if (locked == Locked::kNotHere) {
      // Nobody can lock it, so nobody needs it; the caller continues without a lock.
      ::unlink(path.c_str());
      break;
    }
    if (!is_in_place(file, path)) continue;  // Its holder has just removed it.
    lock.file_ = std::move(file);
    break;
  }
  return std::optional<FileLock>(std::move(lock));
}

void FileLock::remove_abandoned(const std::string& path) {
  FileLock lock;
  lock.file_ =
      FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), path);
  if (!lock.file_.is_open()) return;
  // The destructor of `lock` removes what is locked and still in place; a living holder's file is
  // let go of instead.
  if (lock_file(lock.file_, LOCK_EX | LOCK_NB) != Locked::kYes) lock.file_ = FileDescriptor();
}

}  // namespace meg::io
