#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "libmeg/base/bytes.h"

namespace meg::dataset {

/// A read-only view of a little-endian array of T at any address, aligned or not. Borrows the
/// bytes.
template <class T>
class LittleEndianArray {
 public:
  LittleEndianArray() = default;

  /// bytes.size() must be a multiple of sizeof(T).
  explicit LittleEndianArray(std::span<const std::byte> bytes) : bytes_(bytes) {
    assert(bytes.size() % sizeof(T) == 0);
  }

  int64_t size() const { return static_cast<int64_t>(bytes_.size() / sizeof(T)); }

  bool empty() const { return bytes_.empty(); }

  std::span<const std::byte> bytes() const { return bytes_; }

  /// Those of the elements [begin, end).
  std::span<const std::byte> bytes(int64_t begin, int64_t end) const {
    assert(begin >= 0 && begin <= end && end <= size());
    return bytes_.subspan(static_cast<size_t>(begin) * sizeof(T),
                          static_cast<size_t>(end - begin) * sizeof(T));
  }

  /// 0 <= index < size().
  T operator[](int64_t index) const {
    assert(index >= 0 && index < size());
    return load_le<T>(bytes_.data() + static_cast<size_t>(index) * sizeof(T));
  }

  /// Not empty.
  T front() const { return (*this)[0]; }

  T back() const { return (*this)[size() - 1]; }

  /// A buffer for copy() where the array goes through memory piece by piece.
  std::vector<T> piece_buffer() const {
    constexpr int64_t kMaxElements = int64_t{1} << 15;
    return std::vector<T>(static_cast<size_t>(std::min(size(), kMaxElements)));
  }

  /// Copies the elements from `first` on until `into` is full or the array ends; returns those.
  std::span<T> copy(int64_t first, std::span<T> into) const {
    assert(first >= 0 && first <= size());
    const auto count = std::min(into.size(), static_cast<size_t>(size() - first));
    if (count > 0) {
      std::memcpy(into.data(), bytes_.data() + static_cast<size_t>(first) * sizeof(T),
                  count * sizeof(T));
    }
    return into.first(count);
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace meg::dataset
