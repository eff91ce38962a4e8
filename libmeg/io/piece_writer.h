#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/io/atomic_file.h"

namespace meg::io {

/// Appends to a range of an AtomicFile in pieces of 1 MiB, and regularly asks the system to begin
/// writing them to the device. The file is borrowed. One thread at a time.
class PieceWriter {
 public:
  /// offset: the position of the first byte.
  PieceWriter(const AtomicFile& file, int64_t offset) : file_(&file), flushed_(offset) {}

  Status append(std::span<const std::byte> bytes);

  template <class T>
  Status append_value(T value) {
    return append(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }

  /// Writes everything to the system; without it the last piece is lost.
  Status flush();

  /// Flushes and skips `count` bytes, which another writer fills.
  Status skip(int64_t count);

  /// The position of the next byte.
  int64_t position() const { return flushed_ + static_cast<int64_t>(piece_.size()); }

 private:
  Status write(std::span<const std::byte> bytes);

  const AtomicFile* file_;
  int64_t flushed_;
  std::vector<std::byte> piece_;
};

/// Every this many bytes of a growing file the system is asked to begin writing them back.
inline constexpr int64_t kWritebackBytes = int64_t{8} << 20;

/// Call after a write that took the count of bytes in `file` from `before` to `after`: asks for
/// write-back each time a multiple of kWritebackBytes is passed. Bytes may have been written
/// somewhat out of order: the window asked for reaches back twice as far.
void start_writeback_if_due(const AtomicFile& file, int64_t before, int64_t after);

}  // namespace meg::io
