#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace meg::cleaning {

/// Numbers from 0 on that are joined to sets, each of which is a tree. Memory: 8 bytes a number.
class DisjointSets {
 public:
  /// Makes the numbers below `count` sets of their own, but those that are there already.
  void grow(uint32_t count) {
    const auto before = static_cast<std::ptrdiff_t>(parents_.size());
    parents_.resize(count);
    std::iota(parents_.begin() + before, parents_.end(), static_cast<uint32_t>(before));
    sizes_.resize(count, 1);
  }

  uint32_t count() const { return static_cast<uint32_t>(parents_.size()); }

  /// The number that stands for a set.
  uint32_t root(uint32_t number) {
    uint32_t root = number;
    while (parents_[root] != root) root = parents_[root];
    while (parents_[number] != root) number = std::exchange(parents_[number], root);
    return root;
  }

  /// Numbers of the set of this root.
  uint32_t size(uint32_t root) const { return sizes_[root]; }

  /// The root of the joined set: that of the larger one; of equal ones that of a.
  uint32_t join(uint32_t a, uint32_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return a;
    if (sizes_[a] < sizes_[b]) std::swap(a, b);
    parents_[b] = a;
    sizes_[a] += sizes_[b];
    return a;
  }

 private:
  std::vector<uint32_t> parents_, sizes_;  // those of roots count
};

}  // namespace meg::cleaning
