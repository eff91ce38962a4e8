#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meg::packing {

/// Which items lie together: those of bin b are items[begins[b]] to items[begins[b + 1] - 1].
struct Bins {
  std::vector<uint32_t> items;
  std::vector<size_t> begins = {0};

  size_t size() const { return begins.size() - 1; }

  std::span<const uint32_t> bin(size_t number) const {
    return std::span(items).subspan(begins[number], begins[number + 1] - begins[number]);
  }
};

/// Items in the order of their lengths, longest first, each into the first bin that has room; of
/// equal length, in their own order. lengths: 0 to capacity, fewer than 2^32. O(n log n). Mirrors
/// Megatron-Bridge data/packing/algorithms.py: first_fit_decreasing.
Bins first_fit_decreasing(std::span<const int32_t> lengths, int64_t capacity);

/// Items in their own order; a bin is closed when the next item does not fit.
Bins next_fit(std::span<const int32_t> lengths, int64_t capacity);

}  // namespace meg::packing
