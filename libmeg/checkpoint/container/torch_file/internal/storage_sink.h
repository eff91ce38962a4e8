#pragma once

#include <cstdint>
#include <span>

#include "libmeg/checkpoint/state/tensor_sink.h"

namespace meg::checkpoint {

/// Fills a storage of a file that a TorchFileWriter or TorchArchiveWriter writes, and passes the
/// CRC to the writer, which must outlive the sink and must not be moved.
template <class Writer>
class StorageSink final : public TensorSink {
 public:
  StorageSink(Writer* writer, int storage, uint64_t bytes)
      : TensorSink(bytes), writer_(writer), storage_(storage) {}

  Status write(uint64_t offset, std::span<const std::byte> bytes) override {
    return writer_->write(storage_, offset, bytes);
  }

  bool starts_as_zeros() const override { return true; }

  bool wants_crc() const override { return true; }

  void set_crc(uint32_t crc) override { writer_->set_crc(storage_, crc); }

  const io::PooledFile* file() const override { return &writer_->file(); }

 private:
  Writer* writer_;
  int storage_;
};

}  // namespace meg::checkpoint
