#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace meg::checkpoint {

/// A zip archive of stored entries, byte for byte as torch's writer makes them: CRCs and sizes
/// follow the data in descriptors, an extra field in front of the data aligns them to 64 bytes,
/// zip64 fields stand where a size or an offset needs them. Every position is known before any
/// data.
class ZipLayout {
 public:
  struct Record {
    std::string name;
    uint64_t size = 0;
    uint64_t header_offset = 0;
    uint64_t data_offset = 0;
    uint32_t crc = 0;

    uint64_t data_end() const { return data_offset + size; }
  };

  /// Appends an entry. name: at most 4096 bytes. size: at most 2^62 in all.
  void add(std::string name, uint64_t size);

  const std::vector<Record>& records() const { return records_; }

  void set_crc(size_t record, uint32_t crc) { records_[record].crc = crc; }

  /// Bytes of the whole archive with what was added so far.
  uint64_t file_size() const;

  /// The bytes between the previous record's data and those of `record`: the previous record's
  /// descriptor, which needs its CRC, and the local header.
  std::vector<std::byte> bytes_before(size_t record) const;

  /// The bytes after the last data: its descriptor, the directory and the end records.
  std::vector<std::byte> bytes_after_last() const;

 private:
  uint64_t directory_offset() const;
  std::vector<Record> records_;
};

}  // namespace meg::checkpoint
