#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "libmeg/base/bytes.h"

namespace meg::dataset {

/// A read-only view of a little-endian array of T at any address, aligned or not. Borrows the
/// bytes. The elements may be stored as int64, in a unit of their own, as TNTIDX has lengths and
/// offsets.
template <class T>
class LittleEndianArray {
 public:
  LittleEndianArray() = default;

  /// bytes.size() must be a multiple of sizeof(T).
  explicit LittleEndianArray(std::span<const std::byte> bytes) : bytes_(bytes) {
    assert(bytes.size() % sizeof(T) == 0);
  }

  /// An array of int64 whose elements are multiples of `unit`, at least 1. A negative element, or
  /// one that does not fit T, reads as -1, so that callers, which check for negative elements
  /// anyway, detect the damage.
  static LittleEndianArray of_int64(std::span<const std::byte> bytes,
                                    int64_t unit) requires std::is_integral_v<T> {
    assert(bytes.size() % sizeof(int64_t) == 0 && unit >= 1);
    LittleEndianArray array;
    array.bytes_ = bytes;
    array.unit_ = unit;
    return array;
  }

  int64_t size() const { return static_cast<int64_t>(bytes_.size() / element_bytes()); }

  bool empty() const { return bytes_.empty(); }

  std::span<const std::byte> bytes() const { return bytes_; }

  /// The bytes of the elements [begin, end).
  std::span<const std::byte> bytes(int64_t begin, int64_t end) const {
    assert(begin >= 0 && begin <= end && end <= size());
    return bytes_.subspan(static_cast<size_t>(begin) * element_bytes(),
                          static_cast<size_t>(end - begin) * element_bytes());
  }

  /// 0 <= index < size().
  T operator[](int64_t index) const {
    assert(index >= 0 && index < size());
    const std::byte* const stored = bytes_.data() + static_cast<size_t>(index) * element_bytes();
    if constexpr (std::is_integral_v<T>) {
      if (unit_ != kAsT) return from_int64(load_le<int64_t>(stored));
    }
    return load_le<T>(stored);
  }

  /// Not empty.
  T front() const { return (*this)[0]; }

  T back() const { return (*this)[size() - 1]; }

  /// A buffer for copy(), to process the array piece by piece.
  std::vector<T> piece_buffer() const {
    constexpr int64_t kMaxElements = int64_t{1} << 15;
    return std::vector<T>(static_cast<size_t>(std::min(size(), kMaxElements)));
  }

  /// Copies the elements from `first` on until `into` is full or the array ends; returns those.
  std::span<T> copy(int64_t first, std::span<T> into) const {
    assert(first >= 0 && first <= size());
    const auto count = std::min(into.size(), static_cast<size_t>(size() - first));
    if (unit_ != kAsT) {
      for (size_t i = 0; i < count; ++i) into[i] = (*this)[first + static_cast<int64_t>(i)];
    } else if (count > 0) {
      std::memcpy(into.data(), bytes_.data() + static_cast<size_t>(first) * sizeof(T),
                  count * sizeof(T));
    }
    return into.first(count);
  }

 private:
  static constexpr int64_t kAsT = 0;

  size_t element_bytes() const { return unit_ == kAsT ? sizeof(T) : sizeof(int64_t); }

  T from_int64(int64_t stored) const {
    int64_t element = 0;
    const bool fits = stored >= 0 && !__builtin_mul_overflow(stored, unit_, &element) &&
                      element <= int64_t{std::numeric_limits<T>::max()};
    return fits ? static_cast<T>(element) : T(-1);
  }

  std::span<const std::byte> bytes_;
  int64_t unit_ = kAsT;  // Else the elements are stored as int64.
};

}  // namespace meg::dataset
