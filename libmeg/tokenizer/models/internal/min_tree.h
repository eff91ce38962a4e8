#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace meg::tokenizer::fast {

/// Numbers of which the smallest is always known: a tree whose nodes are the smallest of their
/// eight children, a cache line. A change costs O(log n) and, unlike in a heap, no branches that
/// the processor guesses wrong.
class MinTree {
 public:
  static constexpr uint64_t kInfinite = UINT64_MAX;

  /// Discards all numbers; there are now `size` of them, kInfinite unless assigned by assign().
  /// Call build() afterwards. size: 1 to 2^32.
  void resize(size_t size) {
    levels_ = 0;
    size_t end = 0;
    do {
      begins_[levels_++] = end;
      size = (size + kChildren - 1) / kChildren;
      end += size * kChildren;
    } while (size > 1);
    begins_[levels_] = end;
    values_.assign(end + 1, kInfinite);
  }

  void assign(size_t i, uint64_t value) { values_[i] = value; }

  void build() {
    for (size_t level = 0; level < levels_; ++level) {
      const size_t parents = (begins_[level + 1] - begins_[level]) / kChildren;
      for (size_t i = 0; i < parents; ++i) {
        values_[begins_[level + 1] + i] = smallest_child(level, i);
      }
    }
  }

  void set(size_t i, uint64_t value) {
    values_[i] = value;
    for (size_t level = 0; level < levels_; ++level) {
      i /= kChildren;
      uint64_t& parent = values_[begins_[level + 1] + i];
      const uint64_t smallest = smallest_child(level, i);
      if (parent == smallest) return;
      parent = smallest;
    }
  }

  uint64_t min() const { return values_.back(); }

 private:
  static constexpr size_t kChildren = 8;
  static constexpr size_t kMaxLevels = 11;  // 8^11 > 2^32

  uint64_t smallest_child(size_t level, size_t parent) const {
    const uint64_t* child = &values_[begins_[level] + parent * kChildren];
    const uint64_t first = std::min(std::min(child[0], child[1]), std::min(child[2], child[3]));
    const uint64_t last = std::min(std::min(child[4], child[5]), std::min(child[6], child[7]));
    return std::min(first, last);
  }

  std::vector<uint64_t> values_;  // the numbers, then the levels above them, each filled up to 8
  std::array<size_t, kMaxLevels + 1> begins_{};  // of the levels in values_
  size_t levels_ = 0;                            // without the root, which stands last
};

}  // namespace meg::tokenizer::fast
