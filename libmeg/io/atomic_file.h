#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// A file that appears under its final name only when it is whole.
///
/// Bytes go to `<path>.partial-<pid>-<number>` beside it, which is locked as long as it is written.
/// commit() flushes and renames; without it the destructor removes the partial file. Partial files
/// of processes that were killed are removed by the next create() for the same path: they hold no
/// lock any more.
///
/// A symbolic link stays: what it names is replaced. What is no regular file (a device, a pipe) or
/// is where this process's standard output or error goes is written straight, with nothing to undo.
class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  /// For a file that is written from its begin to its end. Creates missing folders above path.
  /// kIoError or kNotFound name what could not be created. Waits for the reader of a pipe.
  static Result<AtomicFile> create(const std::string& path);

  /// For a file that is written at offsets or read back: as create(), but what is no regular file
  /// is kInvalidArgument.
  static Result<AtomicFile> create_regular(const std::string& path);

  /// create_regular() for a path whose writers hold a lock on something. It does not list the
  /// folder for what killed writers left: where a holder was killed, the next one calls
  /// remove_stale_partials.
  static Result<AtomicFile> create_under_lock(const std::string& path);

  /// For a file that another process may go on with: its partial file is `<path><suffix>`, which
  /// the destructor leaves and the next open_kept() finds with its content. The caller sees to it
  /// that one process at a time has it.
  static Result<AtomicFile> open_kept(const std::string& path, const std::string& suffix);

  /// The partial file of an open_kept() of another process, to be published.
  struct Kept {
    std::string path;
    std::string suffix;
    int64_t size = 0;  ///< of the whole file
  };

  /// Goes on with a commit_all() of kept files wherever its process was killed; does nothing where
  /// it was done. kCorruption, before anything is renamed, where a file has another size.
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

  /// Cuts off what lies behind `size` bytes; kCorruption where there are fewer.
  Status truncate(int64_t size) const;

  /// Gives the file up: nothing is left of it.
  void discard();

  /// As FileDescriptor::copy_from.
  Status copy_from(const FileDescriptor& from, int64_t from_offset, int64_t length, int64_t offset,
                   const FileDescriptor::Moved& moved) const {
    return file_.copy_from(from, from_offset, length, offset, moved);
  }

  /// Asks the system to begin writing [offset, offset + length) to the device, so that commit()
  /// finds little left to flush.
  void start_writeback(int64_t offset, int64_t length) const;

  /// What a crash of the machine right after commit() may undo.
  enum class Flush {
    kFilesAndFolder,  ///< Nothing.
    kFiles,           ///< The new names; what they then name is whole.
    kNothing,         ///< Also contents, unless flush_all() has been called: for files whose
                      ///< readers see what is missing.
  };

  /// Flushes the contents of all files to the device, several at once: whoever waits for the device
  /// together waits little longer than one alone.
  static Status flush_all(std::span<AtomicFile* const> files);

  /// Flushes to the device, renames to path() and flushes the folder.
  Status commit(Flush flush = Flush::kFilesAndFolder);

  /// commit() of several files that belong together: all are flushed before the first is renamed,
  /// and they are renamed in the given order (put the file last that readers look for first).
  /// Before that, older files under their names are removed, the last one first, so that a killed
  /// process leaves no file of one set beside a file of another.
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
