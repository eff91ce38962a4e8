#pragma once

#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// A folder that appears under its final name only when everything in it is whole.
///
/// Its files are written into staging_path(), `<path>.partial-<pid>-<number>` beside it, which is
/// locked as long as it is written. commit() flushes the folder tree and renames it into place;
/// where `path` exists already, both change places in one step and the old one is removed
/// afterwards (where the filesystem cannot do that in one step, see replace_folder). Without
/// commit() the destructor removes what was staged, and the folders that were made for it. Staging
/// folders of processes that were killed are removed by the next create() for the same path: they
/// hold no lock any more.
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
  /// files. An older folder that cannot be removed is no error: it stays as a staging folder of
  /// nobody.
  Status commit();

 private:
  void discard();

  std::string path_;
  std::string staging_path_;
  std::vector<std::string> made_above_;  // folders that create() made, the innermost first
  FileDescriptor lock_;
  FileDescriptor above_;  // the folder that path_ is in
};

}  // namespace meg::io
