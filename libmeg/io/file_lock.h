#pragma once

#include <functional>
#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// An exclusive lock that processes and threads take by the name of a file, which exists only as
/// long as somebody holds or awaits it. Held until destruction; the system lets it go with the
/// process.
class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  /// Called about 20 times a second while somebody else holds the lock; false ends the waiting with
  /// kCancelled.
  using Waiting = std::function<bool()>;

  /// Waits for it. Creates missing folders above path. Where the file system has no locks, returns
  /// an object that holds nothing.
  static Result<FileLock> acquire(const std::string& path, const Waiting& waiting = {});

  /// Never waits: nullopt where somebody else holds it.
  static Result<std::optional<FileLock>> try_acquire(const std::string& path);

  /// Removes the file that a killed holder left, if there is one and nobody took it over. Never
  /// waits.
  static void remove_abandoned(const std::string& path);

 private:
  /// nullopt only with LOCK_NB in `operation` (of flock).
  static Result<std::optional<FileLock>> take(const std::string& path, int operation);

  FileDescriptor file_;
};

}  // namespace meg::io
