#pragma once

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// A folder that appears under its final name only when everything in it is complete.
///
/// Its files are written into staging_path(), `<path>.partial-<pid>-<number>` beside it, which is
/// locked as long as it is written. commit() flushes the folder tree and renames it into place;
/// if `path` already exists, the two are exchanged in one step and the old one is removed
/// afterwards (see replace_folder for file systems that cannot do that). Without commit() the
/// destructor removes the staged files, and the folders that were created for them. The next
/// create() for the same path removes staging folders of killed processes, which no longer hold a
/// lock.
class AtomicFolder {
 public:
  AtomicFolder() = default;
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&& other) noexcept;
  ~AtomicFolder();

  /// Creates missing folders above path. kIoError or kNotFound name what could not be created, or
  /// say that path is no folder.
  static Result<AtomicFolder> create(const std::string& path);

  const std::string& path() const { return path_; }

  /// Where the files are written until commit().
  const std::string& staging_path() const { return staging_path_; }

  /// Flushes every file and folder under staging_path() to the device, renames it to path() and
  /// flushes the folder above, which may be reached through symbolic links. The caller closed its
  /// files. An older folder that cannot be removed is not an error: it remains as a staging folder
  /// without an owner.
  Status commit();

 private:
  void discard();

  std::string path_;
  std::string staging_path_;
  FileDescriptor lock_;
  FileDescriptor above_;  // the folder that path_ is in
};

}  // namespace meg::io
