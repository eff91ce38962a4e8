#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// A range of a file that is read like a separate file: a whole file, or one of several
/// concatenated archives. The file must outlive it.
class FileSlice {
 public:
  /// Bytes [begin, begin + size) of `file`. name: starts errors.
  FileSlice(const FileDescriptor& file, uint64_t begin, uint64_t size, std::string name)
      : file_(&file), begin_(begin), size_(size), name_(std::move(name)) {}

  static Result<FileSlice> whole(const FileDescriptor& file) {
    MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
    return FileSlice(file, 0, static_cast<uint64_t>(size), file.path());
  }

  const FileDescriptor& file() const { return *file_; }

  /// Offset of the first byte in the file.
  uint64_t begin() const { return begin_; }

  uint64_t size() const { return size_; }

  const std::string& name() const { return name_; }

  /// kCorruption if the file ends before `into` is full. offset + into.size(): at most size().
  Status read_exactly_at(uint64_t offset, std::span<std::byte> into) const {
    return file_->read_exactly_at(begin_ + offset, into);
  }

 private:
  const FileDescriptor* file_;
  uint64_t begin_, size_;
  std::string name_;
};

}  // namespace meg::io
