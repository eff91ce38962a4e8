#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "libmeg/base/result.h"

namespace meg {

static_assert(std::endian::native == std::endian::little, "libmeg runs on little-endian machines");

/// Little-endian load from any address; sizeof(T) bytes must be readable.
template <class T>
T load_le(const void* address) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

/// Little-endian store to any address; sizeof(T) bytes must be writable.
template <class T>
void store_le(void* address, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(address, &value, sizeof(T));
}

/// Reads consecutive fixed-size little-endian fields, and never past the end. The bytes are
/// borrowed; `name` (a path) starts every error message.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string name)
      : bytes_(bytes), name_(std::move(name)) {}

  /// `field` names the field in the error. kCorruption if fewer bytes are left.
  template <class T>
  Result<T> read(std::string_view field) {
    MEG_ASSIGN_OR_RETURN(std::span<const std::byte> found, read_bytes(sizeof(T), field));
    return load_le<T>(found.data());
  }

  Result<std::span<const std::byte>> read_bytes(uint64_t count, std::string_view field) {
    if (count > bytes_.size() - position_) {
      return make_error(StatusCode::kCorruption, "{}: byte {}: {}: expected {} bytes, found {}",
                        name_, position_, field, count, bytes_.size() - position_);
    }
    const auto found = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return found;
  }

  size_t position() const { return position_; }

  size_t remaining() const { return bytes_.size() - position_; }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  size_t position_ = 0;
};

/// Computes a * b; returns false if the product overflows.
inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

/// Computes a + b; returns false if the sum overflows.
inline bool checked_add(uint64_t a, uint64_t b, uint64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

}  // namespace meg
