#include "libmeg/checkpoint/state/piece.h"

#include <algorithm>
#include <utility>

namespace meg::checkpoint {

Box Box::whole(std::vector<int64_t> sizes) {
  std::vector<int64_t> offsets(sizes.size(), 0);
  return {std::move(offsets), std::move(sizes)};
}

Box Box::shard(std::vector<int64_t> sizes, int axis, int64_t rank, int64_t ranks) {
  Box box = whole(std::move(sizes));
  if (axis < 0) return box;
  const auto cut = static_cast<size_t>(axis);
  box.sizes[cut] /= ranks;
  box.offsets[cut] = rank * box.sizes[cut];
  return box;
}

int64_t Box::elements() const {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

std::vector<Box> boxes_of_range(const Box& box, int64_t first, int64_t count) {
  const std::vector<int64_t>& sizes = box.sizes;
  if (sizes.empty()) return std::vector<Box>(static_cast<size_t>(count), box);
  // This takes at most 2 * axes - 1 boxes: ends of rows on both sides, axis by axis, and whole rows
  // between.
  std::vector<Box> boxes;
  for (const int64_t end = first + count; first < end;) {
    // The outermost axis of which a row begins at `first` and is wholly in the range.
    size_t axis = sizes.size() - 1;
    int64_t row = 1;
    while (axis > 0 && first % (row * sizes[axis]) == 0 && row * sizes[axis] <= end - first) {
      row *= sizes[axis--];
    }
    Box part = box;
    int64_t place = first / row;
    part.offsets[axis] += place % sizes[axis];
    part.sizes[axis] = std::min(sizes[axis] - place % sizes[axis], (end - first) / row);
    while (axis-- > 0) {
      place /= sizes[axis + 1];
      part.offsets[axis] += place % sizes[axis];
      part.sizes[axis] = 1;
    }
    first += part.elements();
    boxes.push_back(std::move(part));
  }
  return boxes;
}

}  // namespace meg::checkpoint
