#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace meg::checkpoint {

/// The CRC-32 of a run of bytes, from the CRCs of parts that may come in any order.
class CrcParts {
 public:
  /// Adds the part at `offset`. Adjacent parts are joined at once.
  void add(uint64_t offset, uint64_t length, uint32_t crc);

  void add(const CrcParts& parts);

  /// The total length of the parts.
  uint64_t bytes() const { return bytes_; }

  /// The CRC of all bytes; nullopt unless the parts cover [0, bytes) exactly once.
  std::optional<uint32_t> whole(uint64_t bytes);

 private:
  struct Part {
    uint64_t offset = 0;
    uint64_t length = 0;
    uint32_t crc = 0;
  };

  std::vector<Part> parts_;
  uint64_t bytes_ = 0;
};

}  // namespace meg::checkpoint
