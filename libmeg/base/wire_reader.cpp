#include "libmeg/base/wire_reader.h"

#include <limits>

namespace meg {

namespace {

constexpr int kVarintBits = 64;
constexpr uint64_t kTypeBits = 3;

}  // namespace

Result<WireField> WireReader::next() {
  const size_t start = offset();
  MEG_ASSIGN_OR_RETURN(const uint64_t tag, varint());
  const uint64_t number = tag >> kTypeBits;
  // protobuf's own range of field numbers; most files that are no message fail here.
  if (number == 0 || number > std::numeric_limits<uint32_t>::max() >> kTypeBits) {
    return make_error(StatusCode::kCorruption,
                      "byte {}: expected a field of a protobuf message, found field number {}",
                      start, number);
  }
  const uint64_t type = tag & ((1 << kTypeBits) - 1);
  WireField field{.number = static_cast<uint32_t>(number),
                  .type = static_cast<WireType>(type),
                  .value = 0,
                  .bytes = {}};
  switch (field.type) {
    case WireType::kVarint: {
      MEG_ASSIGN_OR_RETURN(field.value, varint());
      return field;
    }
    case WireType::kFixed64: {
      MEG_ASSIGN_OR_RETURN(field.value, little_endian(8));
      return field;
    }
    case WireType::kFixed32: {
      MEG_ASSIGN_OR_RETURN(field.value, little_endian(4));
      return field;
    }
    case WireType::kBytes: {
      MEG_ASSIGN_OR_RETURN(field.bytes, length_delimited());
      return field;
    }
  }
  return make_error(StatusCode::kCorruption,
                    "byte {}: field {}: expected wire type 0, 1, 2 or 5, found {}", start,
                    field.number, type);
}

Result<uint64_t> WireReader::varint() {
  const size_t start = offset();
  uint64_t value = 0;
  for (int shift = 0; shift < kVarintBits && !at_end(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message_[at_++]);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return make_error(StatusCode::kCorruption,
                    "byte {}: expected a varint of at most 10 bytes, found {}", start,
                    at_end() ? "the end of the message" : "a longer one");
}

Result<uint64_t> WireReader::little_endian(size_t bytes) {
  if (message_.size() - at_ < bytes) {
    return make_error(StatusCode::kCorruption, "byte {}: expected {} bytes, found {}", offset(),
                      bytes, message_.size() - at_);
  }
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(message_[at_++])) << (8 * i);
  }
  return value;
}

Result<std::string_view> WireReader::length_delimited() {
  const size_t start = offset();
  MEG_ASSIGN_OR_RETURN(const uint64_t size, varint());
  // Lengths are compared with what is left, never added to a position, which could overflow.
  if (size > message_.size() - at_) {
    return make_error(StatusCode::kCorruption, "byte {}: expected {} bytes, found {}", start, size,
                      message_.size() - at_);
  }
  const std::string_view bytes = message_.substr(at_, size);
  at_ += size;
  return bytes;
}

}  // namespace meg
