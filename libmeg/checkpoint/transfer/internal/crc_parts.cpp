#include "libmeg/checkpoint/transfer/internal/crc_parts.h"

#include <algorithm>

#include "libmeg/io/crc32.h"

namespace meg::checkpoint {

void CrcParts::add(uint64_t offset, uint64_t length, uint32_t crc) {
  if (length == 0) return;
  bytes_ += length;
  if (!parts_.empty() && parts_.back().offset + parts_.back().length == offset) {
    // Combining costs the logarithm of a part's length, and a job of thousands of slabs keeps one
    // part.
    Part& last = parts_.back();
    last.crc = io::crc32_combine(last.crc, crc, length);
    last.length += length;
    return;
  }
  parts_.push_back({offset, length, crc});
}

void CrcParts::add(const CrcParts& parts) {
  for (const Part& part : parts.parts_) add(part.offset, part.length, part.crc);
}

std::optional<uint32_t> CrcParts::whole(uint64_t bytes) {
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  uint32_t crc = 0;
  for (const Part& part : parts_) {
    if (part.offset != end) return std::nullopt;
    crc = io::crc32_combine(crc, part.crc, part.length);
    end += part.length;
  }
  if (end != bytes) return std::nullopt;
  return crc;
}

}  // namespace meg::checkpoint
