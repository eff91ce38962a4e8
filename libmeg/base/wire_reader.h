#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg {

/// How a field of a Protocol Buffers message is written.
enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a message. Views point into the message.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      ///< kVarint, kFixed64, kFixed32
  std::string_view bytes;  ///< kBytes
};

/// Reads the fields of one Protocol Buffers message, one after another. Allocates nothing.
/// Mirrors https://protobuf.dev/programming-guides/encoding; groups are refused.
class WireReader {
 public:
  /// offset: of the message in its file, for errors.
  explicit WireReader(std::string_view message, size_t offset = 0)
      : message_(message), offset_(offset) {}

  bool at_end() const { return at_ == message_.size(); }

  /// Where the next field begins, in the file.
  size_t offset() const { return offset_ + at_; }

  /// Reads the next field; must not be called at the end. kCorruption if it is truncated or of an
  /// unknown type.
  Result<WireField> next();

 private:
  Result<uint64_t> varint();
  Result<uint64_t> little_endian(size_t bytes);
  Result<std::string_view> length_delimited();

  std::string_view message_;
  size_t offset_;
  size_t at_ = 0;
};

}  // namespace meg
