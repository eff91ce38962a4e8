#include "libmeg/logging/internal/tf_record.h"

#include <array>
#include <bit>

#include "libmeg/base/bytes.h"

namespace meg::logging {
namespace {

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}();

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  store_le(bytes.data(), value);
  return bytes;
}

/// The format masks its CRCs, because a CRC over bytes that contain CRCs is a weak check.
std::string masked_crc(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8U);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc;
}

void append_tf_record(std::string& file, std::string_view bytes) {
  const std::string length = little_endian(uint64_t{bytes.size()});
  file += length;
  file += masked_crc(length);
  file += bytes;
  file += masked_crc(bytes);
}

}  // namespace meg::logging
