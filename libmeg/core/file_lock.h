#pragma once

#include <string>

#include "libmeg/core/file_descriptor.h"
#include "libmeg/core/result.h"

namespace meg {

/// An exclusive lock that processes and threads take by the name of a file, which exists only as
/// long as somebody holds or awaits it. Held until destruction; the system lets it go with the
/// process.
class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  /// Waits for it. Creates missing folders above path. Where the file system has no locks, returns
  /// an object that holds nothing.
  static Result<FileLock> acquire(const std::string& path);

  /// Removes the file that a killed holder left, if there is one and nobody took it over. Never
  /// waits.
  static void remove_abandoned(const std::string& path);

 private:
  FileDescriptor file_;
};

}  // namespace meg
