#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// A file that appears under its final name only when it is complete.
///
/// Bytes go to `<path>.partial-<pid>-<number>` beside it, which is locked as long as it is written.
/// commit() flushes and renames; without it the destructor removes the partial file. The next
/// create() for the same path removes partial files of killed processes, which no longer hold a
/// lock.
///
/// A symbolic link is kept, and its target is replaced. A path that is not a regular file (a
/// device, a pipe), or that this process's standard output or error goes to, is written directly,
/// which cannot be undone.
class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  /// Creates a file that is written sequentially, and missing folders above path. kIoError or
  /// kNotFound name what could not be created. Waits for the reader of a pipe.
  static Result<AtomicFile> create(const std::string& path);

  /// Creates a file that is written at offsets or read back: like create(), but kInvalidArgument
  /// for anything but a regular file.
  static Result<AtomicFile> create_regular(const std::string& path);

  /// create_regular() for a path whose writers hold a lock on something. It does not look for files
  /// of killed writers: if a holder was killed, the next one calls remove_stale_partials.
  static Result<AtomicFile> create_under_lock(const std::string& path);

  /// Creates a file that another process may continue: its partial file is `<path><suffix>`, which
  /// the destructor keeps and the next open_kept() opens with its content. The caller ensures that
  /// only one process at a time uses it.
  static Result<AtomicFile> open_kept(const std::string& path, const std::string& suffix);

  /// The partial file of an open_kept() of another process, to be published.
  struct Kept {
    std::string path;
    std::string suffix;
    int64_t size = 0;  ///< of the whole file
  };

  /// Completes a commit_all() of kept files after its process was killed; does nothing if it was
  /// complete. kCorruption, before anything is renamed, if a file has a different size.
  static Status publish_kept(std::span<const Kept> files);

  /// Removes the partial files of path whose writers are gone.
  static void remove_stale_partials(const std::string& path);

  const std::string& path() const { return path_; }

  /// Appends, or writes at a byte offset, with errors that name the final path. write_at may be
  /// called by several threads at once.
  Status write(std::span<const std::byte> bytes) const { return file_.write(bytes); }

  Status write_at(int64_t offset, std::span<const std::byte> bytes) const {
    return file_.write_at(offset, bytes);
  }

  Result<size_t> read_at(int64_t offset, std::span<std::byte> into) const {
    return file_.read_at(offset, into);
  }

  /// Truncates the file to `size` bytes; kCorruption if it is shorter.
  Status truncate(int64_t size) const;

  /// Discards the file; nothing of it remains.
  void discard();

  /// Like FileDescriptor::copy_from.
  Status copy_from(const FileDescriptor& from, int64_t from_offset, int64_t length, int64_t offset,
                   const FileDescriptor::Moved& moved) const {
    return file_.copy_from(from, from_offset, length, offset, moved);
  }

  /// Asks the system to begin writing [offset, offset + length) to the device, so that commit()
  /// finds little left to flush.
  void start_writeback(int64_t offset, int64_t length) const;

  /// What a crash of the machine directly after commit() may undo.
  enum class Flush {
    kFilesAndFolder,  ///< Nothing.
    kFiles,           ///< The new names; each then names a complete file.
    kNothing,         ///< Also contents, unless flush_all() has been called: for files whose
                      ///< readers see what is missing.
  };

  /// Flushes the contents of all files to the device, several at once, because concurrent flushes
  /// take little longer than a single one.
  static Status flush_all(std::span<AtomicFile* const> files);

  /// Flushes to the device, renames to path() and flushes the folder.
  Status commit(Flush flush = Flush::kFilesAndFolder);

  /// commit() of several files that belong together: all are flushed before the first is renamed,
  /// and they are renamed in the given order (put the file last that readers look for first).
  /// Before that, older files with these names are removed, the last one first, so that a killed
  /// process never leaves files of different sets side by side.
  static Status commit_all(std::span<AtomicFile* const> files,
                           Flush flush = Flush::kFilesAndFolder);

 private:
  enum class StalePartials { kRemove, kKeep };

  static Status check_regular(const std::string& path);
  static Result<AtomicFile> aimed_at(const std::string& path);
  static Result<AtomicFile> create_partial(const std::string& path, StalePartials stale);
  Status flush();
  Status remove_older() const;
  Status publish();

  FileDescriptor file_;  // its path() is path_
  std::string path_;
  std::string target_;        // path_ once links are followed
  std::string partial_path_;  // empty where the file is written straight or is done
  bool is_kept_ = false;      // by the destructor
};

}  // namespace meg::io
