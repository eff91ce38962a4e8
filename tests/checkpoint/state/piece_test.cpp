#include "libmeg/checkpoint/state/piece.h"

#include <gtest/gtest.h>

#include <vector>

namespace meg::checkpoint {
namespace {

/// The places in a tensor of `axes` of a box's elements, in row-major order.
std::vector<int64_t> places(const Box& box, const std::vector<int64_t>& axes) {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < box.elements(); ++i) {
    int64_t left = i;
    int64_t place = 0;
    int64_t stride = 1;
    for (size_t a = axes.size(); a-- > 0;) {
      place += (box.offsets[a] + left % box.sizes[a]) * stride;
      left /= box.sizes[a];
      stride *= axes[a];
    }
    found.push_back(place);
  }
  return found;
}

TEST(Piece, EveryFlatRangeIsTheBoxesItMakesUp) {
  const std::vector<int64_t> axes{5, 4, 3, 6};
  const Box box{{1, 0, 1, 2}, {3, 4, 2, 3}};
  const std::vector<int64_t> all = places(box, axes);
  const auto count = static_cast<int64_t>(all.size());
  for (int64_t first = 0; first <= count; ++first) {
    for (int64_t end = first; end <= count; ++end) {
      const std::vector<Box> parts = boxes_of_range(box, first, end - first);
      std::vector<int64_t> found;
      for (const Box& part : parts) {
        for (const int64_t place : places(part, axes)) found.push_back(place);
      }
      ASSERT_EQ(found, std::vector<int64_t>(all.begin() + first, all.begin() + end))
          << first << " to " << end;
      ASSERT_LE(parts.size(), 2 * axes.size() + 1);
    }
  }
}

TEST(Piece, ScalarIsOneBox) {
  EXPECT_EQ(boxes_of_range(Box(), 0, 1), std::vector<Box>{Box()});
  EXPECT_TRUE(boxes_of_range(Box(), 0, 0).empty());
}

}  // namespace
}  // namespace meg::checkpoint
