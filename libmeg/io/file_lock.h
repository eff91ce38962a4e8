#pragma once

#include <functional>
#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// An exclusive lock between processes and threads, identified by the name of a file that exists
/// only while the lock is held or awaited. Held until destruction; the system releases it when the
/// process ends.
class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  /// Called about 20 times a second while another process holds the lock; return false to stop
  /// waiting with kCancelled.
  using Waiting = std::function<bool()>;

  /// Waits for the lock. Creates missing folders above path. If the file system has no locks,
  /// returns an object that holds nothing.
  static Result<FileLock> acquire(const std::string& path, const Waiting& waiting = {});

  /// Never waits; nullopt if another process holds it.
  static Result<std::optional<FileLock>> try_acquire(const std::string& path);

  /// Removes the file of a killed holder, if there is one that no other process has taken over.
  /// Never waits.
  static void remove_abandoned(const std::string& path);

 private:
  /// nullopt only with LOCK_NB in `operation` (of flock).
  static Result<std::optional<FileLock>> take(const std::string& path, int operation);

  FileDescriptor file_;
};

}  // namespace meg::io
