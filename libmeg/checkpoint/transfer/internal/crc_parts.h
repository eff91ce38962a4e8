#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace meg::checkpoint {

/// The CRC-32 of a run of bytes, from the CRCs of parts that may come in any order.
class CrcParts {
 public:
  /// The part at `offset`. Parts that follow each other are joined at once.
  void add(uint64_t offset, uint64_t length, uint32_t crc);

  void add(const CrcParts& parts);

  /// How many bytes the parts have together.
  uint64_t bytes() const { return bytes_; }

  /// The CRC of all bytes; nullopt where the parts do not cover [0, bytes) exactly once.
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
