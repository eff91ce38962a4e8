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
  const io::PooledFile* file = nullptr;  ///< Lives as long as the source that names it.
  uint64_t offset = 0, bytes = 0;

  bool operator==(const FileExtent&) const = default;
};

/// What a container says the CRC-32 of some of its bytes is.
struct RecordedCrc {
  FileExtent extent;  ///< The bytes as they stand in the file.
  uint32_t crc = 0;
  std::string name;  ///< Of these bytes within the file, for messages: "storage 17".
};

/// A run of elements that can be read, wherever it lies and whatever its format is. Const functions
/// may be called by several threads at once. A source keeps alive what it reads from.
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

  /// The file that read() reads; nullptr where there is none.
  virtual const io::PooledFile* file() const { return nullptr; }

  /// Where the elements stand in a file one after another just as read() gives them; nullopt where
  /// they do not (strides, other byte order, a container that is compressed).
  virtual std::optional<FileExtent> file_extent() const { return std::nullopt; }

  /// The stretches of a file that the elements are, one after another: the file extent, or several
  /// where the source is put together; none where they do not stand so.
  virtual std::vector<FileExtent> file_stretches() const {
    const std::optional<FileExtent> extent = file_extent();
    return extent.has_value() ? std::vector{*extent} : std::vector<FileExtent>();
  }

  /// What containers claim of the bytes that read() reads, or of more bytes around them: several
  /// where the source is put together, none where they say nothing.
  virtual std::vector<RecordedCrc> recorded_crcs() const { return {}; }

  /// The one claim; nullopt where there is none or several.
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

/// What containers claim of the bytes of all these sources, each claim once.
std::vector<RecordedCrc> recorded_crcs_of(
    std::span<const std::shared_ptr<const TensorSource>> sources);

/// Elements that stand one after another, little-endian, in a file from byte `offset` on; the
/// caller has checked that the file reaches so far. recorded_crc: where the container has one.
std::shared_ptr<const TensorSource> file_source(std::shared_ptr<const io::PooledFile> file,
                                                uint64_t offset, DType dtype, int64_t elements,
                                                std::optional<RecordedCrc> recorded_crc = {});

/// Elements [first, first + count) of a source, which must lie inside.
std::shared_ptr<const TensorSource> part_of(std::shared_ptr<const TensorSource> source,
                                            int64_t first, int64_t count);

/// Elements in memory: bytes.size() / dtype_size(dtype) of them. owner keeps `bytes` alive as long
/// as the source; empty where the caller does.
std::shared_ptr<const TensorSource> memory_source(DType dtype, std::span<const std::byte> bytes,
                                                  std::shared_ptr<const void> owner = {});

}  // namespace meg::checkpoint
