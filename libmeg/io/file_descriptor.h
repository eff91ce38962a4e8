#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "libmeg/base/result.h"

namespace meg::io {

/// Owns an open file; every error names its path. Reads and writes are thread-safe where the
/// operating system's are (pread, pwrite).
class FileDescriptor {
 public:
  FileDescriptor() = default;

  /// Takes ownership of fd.
  FileDescriptor(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  /// For files that are read from begin to end. Opening a pipe does not wait for its writer; until
  /// there is one, poll() waits and reading finds the end.
  static Result<FileDescriptor> open_for_reading(const std::string& path);

  /// For files that are read at offsets: pipes and devices are an error.
  static Result<FileDescriptor> open_regular(const std::string& path);

  int get() const { return fd_; }

  bool is_open() const { return fd_ >= 0; }

  const std::string& path() const { return path_; }

  Result<int64_t> size() const;

  /// Reads until `into` is full or the file ends; returns the bytes read.
  Result<size_t> read(std::span<std::byte> into) const;

  /// Waits for the first bytes of a pipe and returns what is there, at least one byte; 0 at the
  /// end.
  Result<size_t> read_some(std::span<std::byte> into) const;

  /// As read, from byte `offset` of the file, without moving the file's position.
  Result<size_t> read_at(int64_t offset, std::span<std::byte> into) const;

  /// As read_at; kCorruption where the file ends before `into` is full.
  Status read_exactly_at(uint64_t offset, std::span<std::byte> into) const;

  Status write(std::span<const std::byte> bytes) const;
  Status write_at(int64_t offset, std::span<const std::byte> bytes) const;

  /// Asked now and then with the bytes moved since the last time; false ends the work with
  /// kCancelled.
  using Moved = std::function<bool(int64_t)>;

  /// Puts `length` bytes of the regular file `from`, from byte `from_offset` on, at byte `offset`
  /// of this one: within the system, sharing blocks where the file system can, and leaving holes
  /// out. There must be nothing there yet. kCorruption where `from` ends before.
  Status copy_from(const FileDescriptor& from, int64_t from_offset, int64_t length, int64_t offset,
                   const Moved& moved = {}) const;

  /// Flushes data and metadata to the device.
  Status sync() const;

  /// Closes now, reporting what the system says (a destructor could not).
  Status close();

 private:
  int fd_ = -1;
  std::string path_;
};

/// Files that this process may have open at once.
int64_t open_file_limit();

}  // namespace meg::io
