#include "libmeg/packing/bin_packing.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace meg::packing {
namespace {

/// Items by descending length, in their own order where equal: counted, as lengths are small.
std::vector<uint32_t> longest_first(std::span<const int32_t> lengths, int64_t capacity) {
  std::vector<size_t> places(static_cast<size_t>(capacity) + 2);
  for (const int32_t length : lengths) ++places[static_cast<size_t>(capacity - length) + 1];
  std::partial_sum(places.begin(), places.end(), places.begin());
  std::vector<uint32_t> order(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    order[places[static_cast<size_t>(capacity - lengths[i])]++] = static_cast<uint32_t>(i);
  }
  return order;
}

/// The room that each bin has left, as a tree of maxima: finds the first bin with enough of it.
class Room {
 public:
  Room(size_t bins, int32_t capacity)
      : leaves_(std::bit_ceil(std::max<size_t>(bins, 1))), most_(2 * leaves_, capacity) {}

  size_t take(int32_t length) {
    size_t node = 1;
    while (node < leaves_) node = 2 * node + (most_[2 * node] >= length ? 0 : 1);
    const size_t bin = node - leaves_;
    most_[node] -= length;
    for (node /= 2; node > 0; node /= 2)
      most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    return bin;
  }

 private:
  size_t leaves_;
  std::vector<int32_t> most_;
};

}  // namespace

Bins first_fit_decreasing(std::span<const int32_t> lengths, int64_t capacity) {
  const std::vector<uint32_t> order = longest_first(lengths, capacity);
  Room room(lengths.size(), static_cast<int32_t>(capacity));
  std::vector<uint32_t> bin_of(lengths.size());
  Bins bins;
  bins.begins.clear();
  for (const uint32_t item : order) {
    const size_t bin = room.take(lengths[item]);
    bin_of[item] = static_cast<uint32_t>(bin);
    if (bins.begins.size() < bin + 2) bins.begins.resize(bin + 2);
    ++bins.begins[bin + 1];
  }
  if (bins.begins.empty()) bins.begins.push_back(0);
  std::partial_sum(bins.begins.begin(), bins.begins.end(), bins.begins.begin());
  std::vector<size_t> places(bins.begins.begin(), bins.begins.end() - 1);
  bins.items.resize(lengths.size());
  for (const uint32_t item : order) bins.items[places[bin_of[item]]++] = item;
  return bins;
}

Bins next_fit(std::span<const int32_t> lengths, int64_t capacity) {
  Bins bins;
  bins.items.resize(lengths.size());
  std::iota(bins.items.begin(), bins.items.end(), uint32_t{0});
  int64_t used = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (i > 0 && used + lengths[i] > capacity) {
      bins.begins.push_back(i);
      used = 0;
    }
    used += lengths[i];
  }
  if (!lengths.empty()) bins.begins.push_back(lengths.size());
  return bins;
}

}  // namespace meg::packing
