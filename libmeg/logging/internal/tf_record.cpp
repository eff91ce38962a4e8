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

Result<std::optional<std::string_view>> take_tf_record(std::string_view& rest, size_t offset) {
  constexpr size_t kLength = sizeof(uint64_t), kCrc = sizeof(uint32_t);
  constexpr size_t kHead = kLength + kCrc;
  const auto wrong = [offset](std::string_view what, size_t at) {
    return make_error(StatusCode::kCorruption, "byte {}: {}: its CRC does not fit", offset + at,
                      what);
  };
  if (rest.size() < kHead) return std::optional<std::string_view>();
  const std::string_view length = rest.substr(0, kLength);
  if (masked_crc(length) != rest.substr(kLength, kCrc)) return wrong("length of a record", 0);
  const auto size = load_le<uint64_t>(length.data());
  // Compared with the remaining bytes, as the sum of any length and others could overflow.
  if (rest.size() < kHead + kCrc || size > rest.size() - kHead - kCrc) {
    return std::optional<std::string_view>();
  }
  const std::string_view bytes = rest.substr(kHead, size);
  if (masked_crc(bytes) != rest.substr(kHead + size, kCrc)) return wrong("record", kHead);
  rest.remove_prefix(kHead + size + kCrc);
  return std::optional(bytes);
}

}  // namespace meg::logging
