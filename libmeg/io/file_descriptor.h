#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "libmeg/base/result.h"

namespace meg::io {

/// Owns an open file; every error names its path. Reads and writes are thread-safe if the operating
/// system's are (pread, pwrite).
class FileDescriptor {
 public:
  FileDescriptor() = default;

  /// Takes ownership of fd.
  FileDescriptor(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  /// Opens a file that is read sequentially. Opening a pipe does not wait for its writer; until
  /// there is one, poll() waits and reading finds the end.
  static Result<FileDescriptor> open_for_reading(const std::string& path);

  /// Opens a file that is read at offsets: pipes and devices are an error.
  static Result<FileDescriptor> open_regular(const std::string& path);

  int get() const { return fd_; }

  bool is_open() const { return fd_ >= 0; }

  const std::string& path() const { return path_; }

  Result<int64_t> size() const;

  /// Whether fewer blocks are allocated than the file's bytes take: only then is it worth asking
  /// where its holes are, which some file systems answer by looking at every page. On those that
  /// compress, it is true of files without holes as well.
  bool may_have_holes() const;

  /// Reads until `into` is full or the file ends; returns the bytes read.
  Result<size_t> read(std::span<std::byte> into) const;

  /// Waits for the first bytes of a pipe and returns the available ones, at least one; 0 at the
  /// end.
  Result<size_t> read_some(std::span<std::byte> into) const;

  /// Reads like read(), from byte `offset` of the file, without moving the file's position.
  Result<size_t> read_at(int64_t offset, std::span<std::byte> into) const;

  /// Like read_at; kCorruption if the file ends before `into` is full.
  Status read_exactly_at(uint64_t offset, std::span<std::byte> into) const;

  Status write(std::span<const std::byte> bytes) const;
  Status write_at(int64_t offset, std::span<const std::byte> bytes) const;

  /// Called regularly with the number of bytes copied since the last call; return false to end with
  /// kCancelled.
  using Moved = std::function<bool(int64_t)>;

  /// Copies `length` bytes of the regular file `from`, starting at byte `from_offset`, to byte
  /// `offset` of this one, within the kernel, sharing blocks if the file system supports it and
  /// preserving holes. The target range must be empty. kCorruption if `from` ends before.
  Status copy_from(const FileDescriptor& from, int64_t from_offset, int64_t length, int64_t offset,
                   const Moved& moved = {}) const;

  /// Flushes data and metadata to the device.
  Status sync() const;

  /// Closes now and reports errors, which a destructor cannot do.
  Status close();

 private:
  int fd_ = -1;
  std::string path_;
};

/// Maximum number of open files of this process.
int64_t open_file_limit();

}  // namespace meg::io
