#pragma once

#include <cstddef>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

/// Writable memory in a file without a name: the system writes it to the disk where memory is
/// short, and nothing of it remains, even of a killed process. All of its disk space is taken in
/// advance, so that a full disk is an error here, and not the end of the process at a later store.
class ScratchMemory {
 public:
  ScratchMemory() = default;
  ScratchMemory(ScratchMemory&& other) noexcept;
  ScratchMemory& operator=(ScratchMemory&& other) noexcept;
  ~ScratchMemory();

  /// Empty, in the folder of `path`, which errors name.
  static Result<ScratchMemory> create(const std::string& path);

  /// Makes it at least this large; what is new is 0. The memory may move.
  Status grow(size_t bytes);

  void* data() const { return data_; }

  size_t size() const { return size_; }

 private:
  FileDescriptor file_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace meg::io
