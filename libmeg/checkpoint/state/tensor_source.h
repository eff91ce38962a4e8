#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/status.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

/// Bytes [offset, offset + bytes) of a file.
struct FileExtent {
  const io::PooledFile* file = nullptr;  ///< Valid as long as the source.
  uint64_t offset = 0, bytes = 0;

  bool operator==(const FileExtent&) const = default;
};

/// The CRC-32 that a container records for some of its bytes.
struct RecordedCrc {
  FileExtent extent;  ///< The bytes as they stand in the file.
  uint32_t crc = 0;
  std::string name;  ///< Name of these bytes within the file, for messages: "storage 17".
};

/// A run of elements that can be read, wherever it is stored and whatever its format is. Const
/// functions may be called by several threads at once. A source keeps alive what it reads from.
class TensorSource {
 public:
  TensorSource(DType dtype, int64_t elements) : dtype_(dtype), elements_(elements) {}

  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;
  virtual ~TensorSource() = default;

  DType dtype() const { return dtype_; }

  int64_t elements() const { return elements_; }

  int64_t bytes() const { return elements_ * dtype_size(dtype_); }

  /// Reads elements [first, first + into.size() / dtype_size(dtype())), which must lie inside,
  /// little-endian. kCorruption and kIoError name the file.
  virtual Status read(int64_t first, std::span<std::byte> into) const = 0;

  /// The file that read() reads; nullptr if there is none.
  virtual const io::PooledFile* file() const { return nullptr; }

  /// The bytes of a file that are exactly the elements as read() returns them; nullopt if there are
  /// none (strides, another byte order, a compressed container).
  virtual std::optional<FileExtent> file_extent() const { return std::nullopt; }

  /// The ranges of bytes that joined are exactly the elements: the file extent, or several ranges
  /// if the source is assembled; empty if there are none.
  virtual std::vector<FileExtent> file_extents() const {
    const std::optional<FileExtent> extent = file_extent();
    return extent.has_value() ? std::vector{*extent} : std::vector<FileExtent>();
  }

  /// The CRCs that containers record for the bytes that read() reads, or for larger ranges that
  /// include them: several if the source is assembled, none if nothing is recorded.
  virtual std::vector<RecordedCrc> recorded_crcs() const { return {}; }

  /// The only recorded CRC; nullopt if there are none or several.
  std::optional<RecordedCrc> recorded_crc() const {
    std::vector<RecordedCrc> all = recorded_crcs();
    return all.size() == 1 ? std::optional(std::move(all[0])) : std::nullopt;
  }

  /// Whether the file is known to hold no data for these elements, which are zero then.
  virtual bool is_hole(int64_t /*first*/, int64_t /*count*/) const { return false; }

 private:
  DType dtype_;
  int64_t elements_;
};

/// The CRCs that containers record for the bytes of all these sources, each once.
std::vector<RecordedCrc> recorded_crcs_of(
    std::span<const std::shared_ptr<const TensorSource>> sources);

/// Contiguous little-endian elements of a file, from byte `offset` on; the caller must have checked
/// that the file is long enough. recorded_crc: set if the container records one.
std::shared_ptr<const TensorSource> file_source(std::shared_ptr<const io::PooledFile> file,
                                                uint64_t offset, DType dtype, int64_t elements,
                                                std::optional<RecordedCrc> recorded_crc = {});

/// Elements [first, first + count) of a source, which must lie inside.
std::shared_ptr<const TensorSource> part_of(std::shared_ptr<const TensorSource> source,
                                            int64_t first, int64_t count);

/// Elements in memory: bytes.size() / dtype_size(dtype) of them. owner: keeps `bytes` alive as long
/// as the source; empty if the caller does.
std::shared_ptr<const TensorSource> memory_source(DType dtype, std::span<const std::byte> bytes,
                                                  std::shared_ptr<const void> owner = {});

}  // namespace meg::checkpoint
