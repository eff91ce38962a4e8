#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A box of a tensor's axes: [offsets[i], offsets[i] + sizes[i]) of axis i.
struct Box {
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;

  /// The box that covers axes of these sizes.
  static Box whole(std::vector<int64_t> sizes);

  /// The box of rank `rank` of `ranks` that divide one of these axes evenly. axis: negative if none
  /// is divided, so that every rank has the whole.
  static Box shard(std::vector<int64_t> sizes, int axis, int64_t rank, int64_t ranks);

  /// The product of the sizes, which must not overflow.
  int64_t elements() const;

  bool operator==(const Box&) const = default;
};

/// A part of a merged tensor and the source of its elements: a box of the tensor's axes, or a flat
/// range of such a box.
struct Piece {
  std::shared_ptr<const TensorSource> source;
  Box box;
  /// The source holds elements [first, first + source->elements()) of the box, counted in the order
  /// of memory_order: the whole box, or a flat range of it (a data-parallel rank's share).
  int64_t first = 0;
  /// Order of the axes in the source's memory, outermost first; empty: natural order.
  std::vector<int> memory_order = {};
};

/// The boxes into which elements [first, first + count) of a box in natural order divide, in that
/// order; each is one run of the flat range. At most two for each axis, plus one.
std::vector<Box> boxes_of_range(const Box& box, int64_t first, int64_t count);

}  // namespace meg::checkpoint
