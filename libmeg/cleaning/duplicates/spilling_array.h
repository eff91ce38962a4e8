#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/scratch_memory.h"

namespace meg::cleaning {

/// An array that grows: in memory, and beyond a limit in a temporary file that is mapped, so that
/// the system decides how much of it stays in memory.
template <class T>
class SpillingArray {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  /// Always in memory.
  SpillingArray() = default;

  /// path: of the temporary file, which is only made if it is needed. bytes: of memory.
  SpillingArray(std::string path, size_t bytes)
      : path_(std::move(path)), most_(bytes / sizeof(T)) {}

  size_t size() const { return size_; }

  T& operator[](size_t i) { return values_[i]; }

  const T& operator[](size_t i) const { return values_[i]; }

  /// Makes it at least this long, with `value` for what is new.
  Status grow(size_t count, T value = {}) {
    if (count <= size_) return {};
    if (!file_ && (path_.empty() || count <= most_)) {
      in_memory_.resize(count, value);
      values_ = in_memory_.data();
    } else {
      MEG_RETURN_IF_ERROR(reserve_in_file(count));
      std::fill(values_ + size_, values_ + count, value);
    }
    size_ = count;
    return {};
  }

 private:
  Status reserve_in_file(size_t count) {
    const bool is_first = !file_;
    if (is_first) {
      MEG_ASSIGN_OR_RETURN(file_, io::ScratchMemory::create(path_));
    }
    if (count * sizeof(T) > file_->size()) {
      // In large steps, as each may copy the table of its pages.
      MEG_RETURN_IF_ERROR(file_->grow(std::max(count, size_ + size_ / 4) * sizeof(T)));
    }
    values_ = static_cast<T*>(file_->data());
    if (is_first) {
      std::copy(in_memory_.begin(), in_memory_.end(), values_);
      std::vector<T>().swap(in_memory_);
    }
    return {};
  }

  std::string path_;
  size_t most_ = 0;  // elements in memory
  std::vector<T> in_memory_;
  std::optional<io::ScratchMemory> file_;
  T* values_ = nullptr;
  size_t size_ = 0;
};

}  // namespace meg::cleaning
