#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/safetensors/safetensors_header.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

/// A safetensors file opened by its header alone. All const functions may be called by several
/// threads at once.
class SafetensorsFile {
 public:
  /// Errors: those of parse_safetensors_header; kCorruption where the header's length goes past
  /// the file or kMaxSafetensorsHeader. Memory is never allocated beyond what the file's size
  /// justifies.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }

  const SafetensorsHeader& header() const { return header_; }

  /// Offset of a tensor's first byte in the file.
  uint64_t file_offset(const SafetensorsTensor& tensor) const { return data_begin_ + tensor.begin; }

  /// Reads bytes [offset, offset + into.size()) of a tensor of this file.
  Status read(const SafetensorsTensor& tensor, uint64_t offset, std::span<std::byte> into) const;

  /// The descriptor, for callers that move whole runs by (offset, length).
  const io::PooledFile& file() const { return file_; }

 private:
  SafetensorsFile() = default;

  io::PooledFile file_;
  SafetensorsHeader header_;
  uint64_t data_begin_ = 0;
};

/// Writes one safetensors file whose tensors may come in any order and from several threads. The
/// file is created at its full size (unwritten parts are holes); the caller moves it to its final
/// name.
class SafetensorsWriter {
 public:
  /// Creates `path`, which must not exist, and writes the header.
  static Result<SafetensorsWriter> create(const std::string& path, SafetensorsLayout layout);

  const SafetensorsLayout& layout() const { return layout_; }

  /// Writes bytes of a tensor (by its place among those laid out) at `offset` bytes from its first.
  /// Thread-safe for distinct bytes.
  Status write(size_t tensor, uint64_t offset, std::span<const std::byte> bytes) const;

  /// Closes the file; flushing to the device is the caller's (AtomicFolder does it).
  Status finish() { return file_.close(); }

  /// The open descriptor, for callers that move whole runs inside the kernel.
  const io::PooledFile& file() const { return file_; }

 private:
  SafetensorsWriter() = default;

  io::PooledFile file_;
  SafetensorsLayout layout_;
};

}  // namespace meg::checkpoint
