#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/duplicates/spilling_array.h"

namespace meg::cleaning {

/// Numbers from 0 on that are joined to sets, each of which is a tree: 8 bytes a number.
class DisjointSets {
 public:
  /// Always in memory.
  DisjointSets() = default;

  /// path, bytes: of two SpillingArrays, each.
  DisjointSets(const std::string& path, size_t bytes)
      : parents_(path, bytes), sizes_(path, bytes) {}

  /// Makes the numbers below `count` sets of their own, but those that are there already.
  Status grow(uint32_t count) {
    const uint32_t before = this->count();
    MEG_RETURN_IF_ERROR(parents_.grow(count));
    for (uint32_t i = before; i < count; ++i) parents_[i] = i;
    return sizes_.grow(count, 1);
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
  SpillingArray<uint32_t> parents_, sizes_;  // those of roots count
};

}  // namespace meg::cleaning
