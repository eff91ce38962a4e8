#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// A regular file that is read or written at offsets, when there are more files than a process may
/// have open at once: the most recently used files stay open, up to a share of open_file_limit(),
/// and others are reopened when they are used. const functions may be called by several threads at
/// once.
class PooledFile {
 public:
  /// The file, open as long as this object or a copy lives. Hold only one at a time, because it
  /// counts in addition to the share.
  using Pin = std::shared_ptr<const FileDescriptor>;

  /// Opens for reading; pipes and devices are an error.
  static Result<PooledFile> open(const std::string& path);

  /// Creates for writing and reading; the file must not exist.
  static Result<PooledFile> create(const std::string& path);

  PooledFile();
  PooledFile(PooledFile&&) noexcept;
  PooledFile& operator=(PooledFile&&) noexcept;
  ~PooledFile();

  const std::string& path() const;

  /// kIoError if the path now names a different file than when it was opened or, for reading, if
  /// the file's size or modification time has changed.
  Result<Pin> pin() const;

  /// Bytes when it was opened; 0 for one that was created.
  int64_t size() const;

  /// FileDescriptor's functions on a pin of their own.
  Status read_exactly_at(uint64_t offset, std::span<std::byte> into) const;
  Status write_at(int64_t offset, std::span<const std::byte> bytes) const;

  /// Closes it unless it is pinned; the first error of any close of it.
  Status close();

 private:
  struct State;
  explicit PooledFile(std::shared_ptr<State> state);
  static Result<PooledFile> keep_first(FileDescriptor file, bool is_written);
  Pin keep(FileDescriptor file) const;

  std::shared_ptr<State> state_;
};

}  // namespace meg::io
