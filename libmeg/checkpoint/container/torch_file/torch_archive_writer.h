#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/container/zip/zip_layout.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

/// Writes the archive that torch.save would write for a content into part of a file. Storages may
/// be written in any order and by several threads.
class TorchArchiveWriter {
 public:
  /// Writes data.pkl, the small entries and the literal storages. The archive takes
  /// layout.file_size bytes of the file from byte `begin` on, which must be a hole. file: must
  /// outlive this object.
  static Result<TorchArchiveWriter> create(const io::PooledFile& file, uint64_t begin,
                                           const TorchFileContent& content, TorchFileLayout layout);

  const TorchFileLayout& layout() const { return layout_; }

  /// See TorchFileWriter.
  Status write(int storage, uint64_t offset, std::span<const std::byte> bytes) const;

  void set_crc(int storage, uint32_t crc) { crcs_[static_cast<size_t>(storage)] = crc; }

  /// Writes the local headers and the central directory. kInternal if a CRC is missing.
  Status finish();

  /// The file that is written.
  const io::PooledFile& file() const { return *file_; }

 private:
  Status write_at(uint64_t offset, std::span<const std::byte> bytes) const {
    return file_->write_at(static_cast<int64_t>(begin_ + offset), bytes);
  }

  const io::PooledFile* file_ = nullptr;
  uint64_t begin_ = 0;
  TorchFileLayout layout_;
  ZipLayout archive_;
  std::vector<uint64_t> storage_bytes_;
  std::vector<std::optional<uint32_t>> crcs_;  // of each storage
};

}  // namespace meg::checkpoint
