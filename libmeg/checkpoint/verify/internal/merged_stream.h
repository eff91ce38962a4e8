#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/state/logical_parameter.h"

namespace meg::checkpoint {

/// Bytes with a recorded CRC-32 that were read completely, with the CRC-32 found.
struct StorageSum {
  RecordedCrc recorded;
  uint32_t crc = 0;
};

/// Reads a logical tensor from its first element to its last, merged like read_merged() does. Every
/// shard is read once, in large pieces, and its CRC-32 is computed on the way.
class MergedStream {
 public:
  /// Both arguments must outlive the stream.
  MergedStream(const LogicalParameter& parameter, const LogicalTensor& tensor);

  /// Reads the next elements; `into` must not be longer than what is left.
  Status read(std::span<std::byte> into);

  /// Reads the rest of the shards that have been started and returns the CRCs of storages that are
  /// one shard each. Returns nothing if the file's order is not the merged one (checkpoint versions
  /// below 2).
  Result<std::vector<StorageSum>> finish();

 private:
  /// One shard, read in its own order.
  struct Cursor {
    const TensorSource* source = nullptr;
    int64_t bytes = 0;  ///< Size of the shard.
    int64_t next = 0;   ///< First byte of the shard that is not in the buffer yet.
    std::vector<std::byte> buffer;
    std::span<const std::byte> ready;  ///< The part of the buffer that has not been given out.
    uint32_t crc = 0;

    Status fetch(std::span<std::byte> into);
    Status read(std::span<std::byte> into);
  };

  const LogicalParameter& parameter_;
  const LogicalTensor& tensor_;
  int64_t element_;
  int64_t position_ = 0;  // bytes of the merged tensor given out
  int64_t run_ = 0;       // bytes that lie together in one shard; 0: not in this order
  std::vector<Cursor> cursors_;
};

}  // namespace meg::checkpoint
