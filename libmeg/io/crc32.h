#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace meg::io {

/// CRC-32 as in zip files (polynomial 0xEDB88320 reflected). `before` is the CRC of the preceding
/// bytes, so that a long run can be processed in pieces; 0 at its start.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0);

/// CRC-32 of A followed by B, from their own CRCs and B's length in bytes. A and B are not read.
uint32_t crc32_combine(uint32_t crc_of_a, uint32_t crc_of_b, uint64_t length_of_b);

/// CRC-32 of `length` zero bytes.
uint32_t crc32_of_zeros(uint64_t length);

}  // namespace meg::io
