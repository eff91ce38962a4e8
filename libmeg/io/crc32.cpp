#include "libmeg/io/crc32.h"

#include <libdeflate.h>
#include <zlib.h>

namespace meg::io {

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  // libdeflate computes, zlib combines: libdeflate cannot combine two CRCs.
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

uint32_t crc32_combine(uint32_t crc_of_a, uint32_t crc_of_b, uint64_t length_of_b) {
  return static_cast<uint32_t>(
      ::crc32_combine64(crc_of_a, crc_of_b, static_cast<int64_t>(length_of_b)));
}

uint32_t crc32_of_zeros(uint64_t length) {
  // Combining with 0 multiplies by x^(8 length), which is what zero bytes do to the register; the
  // register starts as, and the CRC is, the complement.
  return ~crc32_combine(~uint32_t{0}, 0, length);
}

}  // namespace meg::io
