#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "libmeg/base/status.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

/// A run of bytes to be filled, wherever it is: a storage of a file, memory, a device's staging
/// buffer. Its bytes may be written in any order, each once.
class TensorSink {
 public:
  explicit TensorSink(uint64_t bytes) : bytes_(bytes) {}

  TensorSink(const TensorSink&) = delete;
  TensorSink& operator=(const TensorSink&) = delete;
  virtual ~TensorSink() = default;

  uint64_t bytes() const { return bytes_; }

  /// Writes bytes at `offset` bytes from the start. Several threads may write distinct bytes.
  virtual Status write(uint64_t offset, std::span<const std::byte> bytes) = 0;

  /// The sink's own memory, bytes() long, which may be filled without write(). Empty if there is
  /// none.
  virtual std::span<std::byte> memory() { return {}; }

  /// Whether bytes that are never written read as zeros, so that holes need not be filled.
  virtual bool starts_as_zeros() const { return false; }

  /// Whether set_crc() has an effect.
  virtual bool wants_crc() const { return false; }

  /// Sets the CRC-32 of the whole content once it is written.
  virtual void set_crc(uint32_t /*crc*/) {}

  /// The file that is written, so that threads can work on different files and the device can begin
  /// to write early; nullptr if there is none.
  virtual const io::PooledFile* file() const { return nullptr; }

 private:
  uint64_t bytes_;
};

/// Fills the caller's memory, which must outlive the sink.
std::unique_ptr<TensorSink> memory_sink(std::span<std::byte> memory);

/// Writes bytes [offset, offset + bytes) of a file, which must be a hole. `file` must outlive the
/// sink. crc: receives the CRC-32 of the whole; nullptr if it is not needed.
std::unique_ptr<TensorSink> file_sink(const io::PooledFile& file, uint64_t offset, uint64_t bytes,
                                      uint32_t* crc = nullptr);

}  // namespace meg::checkpoint
