#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/base/bytes.h"

namespace meg::logging {

/// One message of Protocol Buffers while it is written: fields are appended in the order of the
/// calls. https://protobuf.dev/programming-guides/encoding
class ProtobufMessage {
 public:
  /// Serves enumerations and bools too.
  void add_integer(uint32_t field, int64_t value) {
    add_key(field, kVarint);
    add_varint(static_cast<uint64_t>(value));
  }

  void add_double(uint32_t field, double value) {
    add_key(field, kFixed64);
    add_fixed(value);
  }

  void add_float(uint32_t field, float value) {
    add_key(field, kFixed32);
    add_fixed(value);
  }

  /// A string, bytes, or another message's bytes().
  void add_bytes(uint32_t field, std::string_view bytes) {
    add_key(field, kLengthDelimited);
    add_varint(bytes.size());
    bytes_ += bytes;
  }

  void add_message(uint32_t field, const ProtobufMessage& message) {
    add_bytes(field, message.bytes());
  }

  const std::string& bytes() const { return bytes_; }

 private:
  enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void add_key(uint32_t field, WireType type) { add_varint(uint64_t{field} << 3 | type); }

  void add_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  template <class T>
  void add_fixed(T value) {
    std::array<char, sizeof(T)> bytes = {};
    store_le(bytes.data(), value);
    bytes_.append(bytes.data(), bytes.size());
  }

  std::string bytes_;
};

}  // namespace meg::logging
