#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace meg {

/// Zeroed memory from the system, aligned to 2 MiB and in huge pages if available, so that random
/// reads of tables need fewer address translations. Pages are allocated when they are touched.
class HugePages {
 public:
  explicit HugePages(size_t bytes);
  HugePages(HugePages&& other) noexcept;
  HugePages& operator=(HugePages&&) = delete;
  ~HugePages();

  void* data() const { return data_; }

 private:
  void* mapping_;
  size_t mapping_bytes_;
  void* data_;
};

/// A fixed number of elements of T. All zero bits must be a valid value of T.
template <class T>
class HugeArray {
 public:
  static_assert(std::is_trivially_destructible_v<T>);

  explicit HugeArray(size_t size) : pages_(size * sizeof(T)), size_(size) {}

  size_t size() const { return size_; }

  T& operator[](size_t i) { return static_cast<T*>(pages_.data())[i]; }

  const T& operator[](size_t i) const { return static_cast<const T*>(pages_.data())[i]; }

  std::span<T> values() { return {static_cast<T*>(pages_.data()), size_}; }

  std::span<const T> values() const { return {static_cast<const T*>(pages_.data()), size_}; }

 private:
  HugePages pages_;
  size_t size_;
};

}  // namespace meg
