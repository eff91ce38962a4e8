#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/file_slice.h"

namespace meg::checkpoint {

/// One file inside a zip archive. Its bytes [data_offset, data_offset + compressed_size) of the
/// file lie inside the archive and belong to it alone.
struct ZipEntry {
  std::string name;
  uint16_t method = 0;  ///< 0: stored, 8: deflated.
  uint32_t crc = 0;     ///< CRC-32 of the content, as the directory claims.
  uint64_t compressed_size = 0;
  uint64_t size = 0;
  uint64_t header_offset = 0;  ///< Offset of the local header in the file.
  uint64_t data_offset = 0;

  bool is_stored() const { return method == 0; }
};

/// The directory of a zip file (zip64 too), read without touching the entries' data. Only archives
/// that every reader must understand alike are accepted: directory and local headers agree, entries
/// neither overlap nor repeat a name, no name leaves the folder it is extracted into.
class ZipArchive {
 public:
  /// Does not keep `file`. kCorruption if the archive contradicts itself or the file's size;
  /// kUnsupported for encryption, several disks and methods other than stored and deflated.
  static Result<ZipArchive> open(const io::FileDescriptor& file);

  /// The same for an archive that is part of a file.
  static Result<ZipArchive> open(const io::FileSlice& file);

  ZipArchive(ZipArchive&&) = default;
  ZipArchive& operator=(ZipArchive&&) = default;

  /// The entries in the directory's order.
  const std::vector<ZipEntry>& entries() const { return entries_; }

  /// nullptr if there is no such entry.
  const ZipEntry* find(std::string_view name) const;

 private:
  ZipArchive() = default;

  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;  // views of entries_' names
};

/// The content of an entry, inflated if it is deflated; its CRC is not compared. kResourceExhausted
/// if it is larger than `limit` bytes.
Result<std::vector<std::byte>> read_zip_entry(const io::FileDescriptor& file, const ZipEntry& entry,
                                              uint64_t limit);

}  // namespace meg::checkpoint
